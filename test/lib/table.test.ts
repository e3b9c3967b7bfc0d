import { expect, test } from "bun:test";
import fc from "fast-check";
import { nearest } from "../../src/lib/nearest.ts";
import { fields, table } from "../../src/lib/table.ts";
import { bytes, fit, printable, printableJson, widthOf } from "../../src/lib/terminal.ts";

const columns = [
  { title: "NAME", value: (row: { name: string; n: number | null }) => row.name },
  { title: "N", value: (row: { name: string; n: number | null }) => row.n },
];

test("columns stand under their titles, and nothing is a dash", () => {
  const rows = [
    { name: "a", n: 1 },
    { name: "longer", n: null },
  ];
  expect(table(columns, rows)).toBe("NAME    N\na       1\nlonger  -\n");
});

test("a line fits the terminal, whatever is in it", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 20, max: 60 }), (name, width) => {
      for (const line of table(columns, [{ name, n: 7 }], width)
        .trimEnd()
        .split("\n")) {
        expect(widthOf(line)).toBeLessThanOrEqual(width);
      }
    }),
  );
});

test("no control character reaches the terminal", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (name) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
      expect(printable(name)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    }),
  );
});

test("nor out of JSON, which stays the same value", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const json = printableJson(JSON.stringify({ text }));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
      expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
      expect(JSON.parse(json)).toEqual({ text });
    }),
  );
});

test("a record has a line for each field", () => {
  expect(
    fields([
      ["id", "7"],
      ["events", ["a", "b"]],
      ["none", null],
    ]),
  ).toBe("id      7\nevents  a, b\nnone    -\n");
});

test("what is cut says so", () => {
  expect(fit("abcdef", 4)).toBe("abc…");
  expect(fit("日本語", 5)).toBe("日本…");
});

test.each([
  [0, "0 B"],
  [1536, "1.5 KiB"],
  [300 * 1024 * 1024, "300 MiB"],
])("%d bytes are %s", (count, text) => expect(bytes(count)).toBe(text));

test.each([
  ["prot", "port"],
  ["ERRAND_HSOT", "ERRAND_HOST"],
  ["completely-different", undefined],
])("%s most likely meant %s", (word, meant) => {
  expect(nearest(word, ["port", "host", "ERRAND_HOST", "data"])).toBe(meant);
});
