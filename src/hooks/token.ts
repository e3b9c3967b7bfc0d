import { hasChecksum, randomToken } from "../lib/secrets.ts";

/** `eht_<256 bits in base62><checksum>`: opens the incoming webhook of one agent or workflow. */
const TOKEN = /^eht_[0-9A-Za-z]{49}$/;
const SECRET_BYTES = 32;

export const makeHookToken = (): string => randomToken(SECRET_BYTES, "eht_");

/** False for anything that no token can look like, a typing error included. */
export const isHookToken = (text: string): boolean => TOKEN.test(text) && hasChecksum(text);
