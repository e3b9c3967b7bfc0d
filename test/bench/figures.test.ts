import { expect, test } from "bun:test";
import { XMLParser, XMLValidator } from "fast-xml-parser";
import { roundUp, short, svgOf } from "../../scripts/bench/chart.ts";
import { grown, spread } from "../../scripts/bench/measure.ts";

const chart = { title: "a < b & c", unit: "ms", x: "runs", at: [1_000, 1_000_000] };

test("a chart is well-formed, follows light and dark, and has a point for each value", () => {
  const charts = [
    { ...chart, lines: [{ name: "now", values: [3, 4] }] },
    { ...chart, lines: [{ name: "x", values: [0, 0] }] },
  ];
  const svg = svgOf('charts "of" <all>', charts);
  expect(XMLValidator.validate(svg)).toBe(true);
  expect(svg).toContain("prefers-color-scheme: dark");
  expect(svg).not.toContain("NaN");
  const { svg: root } = new XMLParser().parse(svg);
  expect(root.g).toHaveLength(2);
  expect(root.g[0].circle).toHaveLength(2);
  expect(root.g[0].text).toContain("a < b & c");
});

test("an axis ends on a round value at or above the largest", () => {
  expect([0, 0.3, 1, 1.1, 4_300, 9_999].map(roundUp)).toEqual([1, 0.5, 1, 2, 5_000, 10_000]);
  expect([0, 0.25, 950, 1_000, 12_345, 1_000_000].map(short)).toEqual([
    "0",
    "0.25",
    "950",
    "1k",
    "12.3k",
    "1M",
  ]);
});

test("growth is what the middle slope gains beside the middle value, whatever a few bad moments were", () => {
  expect(grown([100, 105, 110])).toBeCloseTo(10 / 105);
  expect(grown([100, 101, 102, 103, 900])).toBeCloseTo(4 / 102);
  expect(grown([700, 100, 100, 100, 100])).toBe(0);
  expect([grown([5]), grown([])]).toEqual([0, 0]);
});

test("a spread tells the middle, the slowest hundredth and the slowest", () => {
  expect(spread(Array.from({ length: 100 }, (_, n) => 100 - n))).toEqual({ p50: 51, p99: 100, max: 100 });
});
