import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LinearPattern, PatternError } from "../../src/lib/linear-pattern.ts";

const matches = (source: string, text: string) => new LinearPattern(source).test(text);

describe("an expression", () => {
  test.each([
    ["^[a-z0-9]+(-[a-z0-9]+)*$", "a-slug-2", "a--slug"],
    ["^(\\d{3}-)?\\d{4}$", "123-4567", "12-4567"],
    ["^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$", "ada@example.com", "ada@example"],
    ["^#(?:[0-9a-fA-F]{3}){1,2}$", "#a1B2c3", "#a1B2"],
    ["^(?<year>\\d{4})-\\d\\d$", "2026-11", "26-11"],
    ["\\bcat\\b", "a cat sat", "concatenate"],
    ["^\\p{Lu}", "Éclair", "éclair"],
    ["^.$", "😀", "ab"],
    ["^[\\w\\-\\.]+\\-$", "a.b-", "a.b"],
    ["a||b", "", "never"],
  ])("%s takes %p", (source, good, bad) => {
    expect(matches(source, good)).toBe(true);
    if (bad !== "never") expect(matches(source, bad)).toBe(false);
  });

  test.each(["(a+)+$", "(a|a)*$", "a*a*a*a*b", "(a?){25}a{25}b", "\\s*\\s*\\s*x", "(.*)*=(.*)*;"])(
    "%s is answered at once on a text made to stall it",
    (source) => {
      const before = performance.now();
      matches(source, `${"a ".repeat(2_000)}!`);
      expect(performance.now() - before).toBeLessThan(200);
    },
  );

  test("is not held to be met by a text too long to say", () => {
    expect(matches("a", "a".repeat(10_000_000))).toBe(false);
  });

  test.each([
    "(",
    "[b-a]",
    "(?=a)b",
    "(?<!a)b",
    "(a)\\1",
    "(?<x>a)\\k<x>",
    "a{9999}",
    "((a{40}){40}){40}",
    "(((){999}){999}){999}",
  ])("%s is refused", (source) => expect(() => new LinearPattern(source)).toThrow(PatternError));
});

test("what it answers is what JavaScript answers", () => {
  const { source } = fc.letrec<{ source: string }>((tie) => ({
    source: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom("a", "b", ".", "[ab]", "[^a]", "\\w", "\\d", "^", "$", "\\b", "\\B", ""),
      fc.tuple(tie("source"), tie("source")).map(([left, right]) => left + right),
      fc.tuple(tie("source"), tie("source")).map(([left, right]) => `(?:${left}|${right})`),
      fc
        .tuple(tie("source"), fc.constantFrom("*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?"))
        .map(([inner, repeat]) => `(${inner})${repeat}`),
    ),
  }));
  const text = fc
    .array(fc.constantFrom("a", "b", "1", " ", "é", "😀"), { maxLength: 6 })
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(source, fc.array(text, { minLength: 1, maxLength: 4 }), (pattern, texts) => {
      const [ours, theirs] = [new LinearPattern(pattern), new RegExp(pattern, "u")];
      for (const one of texts)
        expect([pattern, one, ours.test(one)]).toEqual([pattern, one, theirs.test(one)]);
    }),
    { numRuns: 500 },
  );
});
