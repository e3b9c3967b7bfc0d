import { hash, timingSafeEqual } from "node:crypto";

/** SHA-256 of the text's UTF-8 bytes, lower case hex. Enough for random secrets, far too fast for passwords. */
export const sha256Hex = (text: string | Uint8Array): string => hash("sha256", text, "hex");

/** Compares in constant time. Digests are compared: `timingSafeEqual` throws on unequal lengths. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hash("sha256", a, "buffer"), hash("sha256", b, "buffer"));
}

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// The largest multiple of 62 in a byte: what lies above is thrown away, or the first letters came too often.
const FAIR = 248;

/** `length` letters and digits, each of the 62 equally likely. */
export function randomText(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length * 2))) {
      if (byte < FAIR && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

const CHECKSUM_LETTERS = 6; // 62^6 > 2^32

function checksum(text: string): string {
  let rest = Bun.hash.crc32(text);
  let letters = "";
  for (let place = 0; place < CHECKSUM_LETTERS; place++) {
    letters = BASE62[rest % 62] + letters;
    rest = Math.floor(rest / 62);
  }
  return letters;
}

/** Appends six letters of CRC32, so that a mistyped secret is told from a wrong one without a look-up. */
export const withChecksum = (text: string): string => text + checksum(text);

/** True when the last six letters are the checksum of what stands before them. */
export function hasChecksum(text: string): boolean {
  // The letters' number and not the number's letters: this is asked for every webhook that comes in.
  let told = 0;
  for (let at = text.length - CHECKSUM_LETTERS; at < text.length; at++) {
    const digit = at < 0 ? -1 : BASE62.indexOf(text[at]!);
    if (digit === -1) return false;
    told = told * 62 + digit;
  }
  return told === Bun.hash.crc32(text.slice(0, -CHECKSUM_LETTERS));
}

/** A secret of at least `bytes` random bytes in base62, after its prefix and with its checksum. */
export const randomToken = (bytes: number, prefix: string): string =>
  withChecksum(prefix + randomText(Math.ceil((bytes * 8) / Math.log2(62))));
