import { expect, test } from "bun:test";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { EventReader } from "../../src/models/event-reader.ts";

function read(pieces: string[]): string[] {
  const reader = new EventReader();
  return [...pieces.flatMap((piece) => reader.feed(piece)), ...reader.end()];
}

test.each([
  ["one", "data: a\n\n", ["a"]],
  ["without a space", "data:a\n\n", ["a"]],
  ["with more than one", "data:  a\n\n", [" a"]],
  ["of several lines", "data: a\ndata: b\n\n", ["a\nb"]],
  ["without data", "event: ping\nid: 7\n\n", []],
  ["with comments and names", ": hi\nevent: x\ndata: a\nretry: 3\n\n", ["a"]],
  ["with CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
  ["with CR", "data: a\r\rdata: b\r\r", ["a", "b"]],
  ["behind a byte order mark", "\uFEFFdata: a\n\n", ["a"]],
  ["without its empty line", "data: a", ["a"]],
  ["of a field that begins alike", "dataset: a\n\n", []],
  ["with an empty field", "data\n\n", [""]],
])("an event %s", (_, text, events) => {
  expect(read([text])).toEqual(events);
  expect(read([...text])).toEqual(events);
});

test("any events, cut anywhere, are what the usual parser makes of them", () => {
  const ends = fc.constantFrom("\n", "\r\n");
  const line = fc.constantFrom(
    "data: a",
    "data:b",
    "data:",
    ": c",
    "event: d",
    "",
    "",
    'data: {"x":"é😀"}',
    "data",
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(line, ends)), fc.array(fc.nat(200)), (lines, cuts) => {
      const text = `${lines.map((pair) => pair.join("")).join("")}\n\n`;
      const at = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b);
      const pieces = [...at, text.length].map((end, index) => text.slice(at[index - 1] ?? 0, end));
      const expected: string[] = [];
      const oracle = createParser({ onEvent: ({ data }) => expected.push(data) });
      oracle.feed(text);
      expect(read(pieces)).toEqual(expected);
    }),
  );
});
