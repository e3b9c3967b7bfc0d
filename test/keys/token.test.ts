import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { makeKey, parseKey } from "../../src/keys/token.ts";

describe("the form of a key", () => {
  test("is erk, a public id, a secret of 256 bits and a checksum", () => {
    const { key, public_id, secret } = makeKey();
    expect(key).toMatch(/^erk_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/);
    expect(parseKey(key)).toEqual({ public_id, secret });
    expect(key.startsWith(`erk_${public_id}_${secret}`)).toBe(true);
  });

  test("tells every change of one character and every swap of two neighbours", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 65 }),
        fc.string({ minLength: 1, maxLength: 1 }),
        (place, letter) => {
          const { key } = makeKey();
          const changed = key.slice(0, place) + letter + key.slice(place + 1);
          const swapped = key.slice(0, place) + (key[place + 1] ?? "") + key[place] + key.slice(place + 2);
          return (
            (parseKey(changed) === undefined) === (changed !== key) &&
            (parseKey(swapped) === undefined) === (swapped !== key)
          );
        },
      ),
      { numRuns: 500 },
    );
  });

  test("is met by no other text", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => parseKey(text) === undefined));
    const { key } = makeKey();
    for (const text of ["", ` ${key}`, `${key} `, `${key}\n`, key.slice(1), key + key]) {
      expect(parseKey(text)).toBeUndefined();
    }
  });
});
