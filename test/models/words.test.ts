import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { addWords, SameButTheWord } from "../../src/models/words.ts";

test("words of one kind that follow each other become one part", () => {
  const parts: { type: string; text?: string }[] = [];
  addWords(parts, { type: "reasoning", text: "hm" });
  addWords(parts, { type: "text", text: "Hel" });
  addWords(parts, { type: "text", text: "lo" });
  parts.push({ type: "tool_call" });
  addWords(parts, { type: "text", text: "!" });
  expect(parts).toEqual([
    { type: "reasoning", text: "hm" },
    { type: "text", text: "Hello" },
    { type: "tool_call" },
    { type: "text", text: "!" },
  ]);
});

test("a part that is long enough takes no more words", () => {
  const parts: { type: string; text?: string }[] = [];
  for (const text of ["abc", "de", "fgh"]) addWords(parts, { type: "text", text }, { most: 4 });
  expect(parts.map(({ text }) => text)).toEqual(["abcde", "fgh"]);
});

describe("an event like the one before it", () => {
  const wordIn = (event: string): string | undefined => {
    const { word, other } = JSON.parse(event);
    return typeof word === "string" && word !== "" && !other ? word : undefined;
  };
  const learnt = (event: string) => {
    const same = new SameButTheWord();
    same.learn(event, wordIn(event)!, wordIn);
    return same;
  };

  test("is read without being parsed", () => {
    const same = learnt('{"id":"x","word":"Hel","seen":null}');
    expect(same.wordOf('{"id":"x","word":"lo","seen":null}')).toBe("lo");
    expect(same.wordOf('{"id":"x","word":" Grüße 🎉","seen":null}')).toBe(" Grüße 🎉");
  });

  test("is parsed where anything else of it differs, or its word is not plain", () => {
    const same = learnt('{"id":"x","word":"Hel","seen":null}');
    for (const event of [
      '{"id":"y","word":"lo","seen":null}',
      '{"id":"x","word":"lo","seen":1}',
      '{"id":"x","word":"","seen":null}',
      '{"id":"x","word":"a\\nb","seen":null}',
      '{"id":"x","word":"lo","other":"1","seen":null}',
      '{"id":"x","word":"l\no","seen":null}',
      '{"id":"x","word":null,"seen":null}',
      '{"id":"x","word":"',
      "",
    ])
      expect(same.wordOf(event)).toBeUndefined();
  });

  test("is not mistaken where the word stands in another place as well", () => {
    expect(learnt('{"word":"x","id":"x"}').wordOf('{"word":"x","id":"lo"}')).toBeUndefined();
    expect(learnt('{"id":"a word","word":"a word"}').wordOf('{"id":"a word","word":"b"}')).toBeUndefined();
  });

  test("says what parsing it would say, whatever it is", () => {
    const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("a word", "x", '"', "\\", "}"));
    const event = fc
      .record({ id: text, word: text, other: fc.constantFrom(undefined, "", "1"), tail: text })
      .map((fields) => JSON.stringify(fields));
    fc.assert(
      fc.property(fc.array(event, { maxLength: 8 }), fc.array(text), (events, words) => {
        const same = new SameButTheWord();
        const like = words.map((word) => JSON.stringify({ ...JSON.parse(events[0] ?? "{}"), word }));
        for (const each of [...events, ...like]) {
          const quick = same.wordOf(each);
          const whole = wordIn(each);
          if (quick !== undefined) expect(quick).toBe(whole!);
          else if (whole !== undefined) same.learn(each, whole, wordIn);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("is not looked for any longer where every event has something of its own", () => {
    const same = new SameButTheWord();
    let reads = 0;
    for (let n = 0; n < 100; n++) {
      const event = JSON.stringify({ word: "x", padding: "p".repeat(n) });
      expect(same.wordOf(event)).toBeUndefined();
      same.learn(event, "x", (other) => {
        reads++;
        return wordIn(other);
      });
    }
    expect(reads).toBeLessThan(30);
  });
});
