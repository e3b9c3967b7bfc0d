import { hasChecksum, randomText, withChecksum } from "../lib/secrets.ts";

/**
 * A key as its holder sees it: `erk_<public id>_<secret><checksum>`. The public id finds the row and may
 * stand in logs; the secret has 256 bits; the checksum refuses a typing error before any look-up.
 */
const KEY = /^erk_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})[0-9A-Za-z]{6}$/;
const PUBLIC_LETTERS = 12;
const SECRET_LETTERS = 43;

export type ParsedKey = { public_id: string; secret: string };

export function makeKey(): ParsedKey & { key: string } {
  const public_id = randomText(PUBLIC_LETTERS);
  const secret = randomText(SECRET_LETTERS);
  return { public_id, secret, key: withChecksum(`${prefixOf(public_id)}_${secret}`) };
}

/** Undefined for anything that no key can look like. */
export function parseKey(text: string): ParsedKey | undefined {
  const [, public_id, secret] = KEY.exec(text) ?? [];
  return public_id !== undefined && secret !== undefined && hasChecksum(text)
    ? { public_id, secret }
    : undefined;
}

export const prefixOf = (public_id: string): string => `erk_${public_id}`;
