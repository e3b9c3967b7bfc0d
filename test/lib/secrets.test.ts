import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  hasChecksum,
  randomText,
  randomToken,
  sameSecret,
  sha256Hex,
  withChecksum,
} from "../../src/lib/secrets.ts";

test("a digest is SHA-256 of the UTF-8 bytes, in hex", () => {
  expect(sha256Hex("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect(sha256Hex("é")).toBe(sha256Hex(new TextEncoder().encode("é")));
});

test("secrets are the same when their text is, whatever their lengths", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => sameSecret(a, a) && sameSecret(a, b) === (a === b)),
  );
});

test("a checksum is the last six letters and fits its own text only", () => {
  expect(withChecksum("123456789")).toHaveLength(15);
  expect(hasChecksum("")).toBe(false);
  fc.assert(
    fc.property(fc.string(), (text) => {
      const whole = withChecksum(text);
      return /^[0-9A-Za-z]{6}$/.test(whole.slice(-6)) && hasChecksum(whole) && !hasChecksum(`${whole}0`);
    }),
  );
});

test("a token has its prefix, enough letters for its bytes and a checksum", () => {
  expect(randomToken(32, "x_")).toMatch(/^x_[0-9A-Za-z]{49}$/);
  expect(randomToken(16, "")).toMatch(/^[0-9A-Za-z]{28}$/);
  expect(hasChecksum(randomToken(32, "x_"))).toBe(true);
});

test("random text uses every letter about equally", () => {
  const counts = new Map<string, number>();
  for (const letter of randomText(62_000)) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  expect(counts.size).toBe(62);
  for (const count of counts.values()) {
    // Eight standard deviations of about 31.5 each way: never by chance.
    expect(Math.abs(count - 1_000)).toBeLessThan(260);
  }
});
