import type { Caller } from "./context.ts";

/** Whose key a token is; undefined for none. */
export type Authenticate = (token: string) => Promise<Caller | undefined> | Caller | undefined;

// One scheme, one space, one token of RFC 6750's alphabet. Two Authorization headers arrive joined by a
// comma, which is not in it.
const BEARER = /^bearer ([\w.~+/-]{1,512}=*)$/i;

/** The token of an Authorization header; undefined when the header is missing or anything but one Bearer token. */
export const bearerToken = (header: string | null): string | undefined =>
  header === null ? undefined : BEARER.exec(header)?.[1];
