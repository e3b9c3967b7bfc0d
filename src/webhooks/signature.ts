import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;
const TOLERANCE_SECONDS = 300;
const MOST_KNOWN = 1_000;

/** A fresh subscription secret: `whsec_` and the base64 of 32 random bytes. */
export const newSecret = (): string => PREFIX + randomBytes(SECRET_BYTES).toString("base64");

/**
 * Signs one attempt both ways with the one secret:
 *
 * - `X-Service-Signature` (interface 5.3): keyed with the secret as it is shown, over the body.
 * - Standard Webhooks 1.0: keyed with the bytes behind `whsec_`, over `id.timestamp.body`. `id` is the
 *   event's, the same on every attempt; the timestamp is the attempt's, in seconds.
 *
 * While a rotation overlaps, `previous` signs as well: in `X-Service-Signature-2`, and as the second of the
 * signatures that Standard Webhooks lists, so that a receiver that knows either secret finds its own.
 */
export function signatureHeaders(
  secret: string,
  { id, at, body }: { id: string; at: number; body: string },
  previous?: string,
): Record<string, string> {
  const timestamp = String(Math.floor(at / 1_000));
  const head = `${id}.${timestamp}.`;
  const headers = {
    "X-Service-Signature": serviceSignature(secret, body),
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${standardMac(secret, head, body)}`,
  };
  if (previous === undefined) return headers;
  return {
    ...headers,
    "X-Service-Signature-2": serviceSignature(previous, body),
    "webhook-signature": `${headers["webhook-signature"]} v1,${standardMac(previous, head, body)}`,
  };
}

/** Interface 5.3: `sha256=` and the lowercase hex digest. */
export const serviceSignature = (secret: string, body: string | Uint8Array): string =>
  `sha256=${signer(services, secret, asShown).update(body).digest("hex")}`;

const standardMac = (secret: string, head: string, body: string | Uint8Array): string =>
  signer(standards, secret, behindPrefix).update(head).update(body).digest("base64");

const asShown = (secret: string) => secret;
const behindPrefix = (secret: string) => Buffer.from(secret.slice(PREFIX.length), "base64");

type Signers = LRUCache<string, Bun.CryptoHasher>;
const services: Signers = new LRUCache({ max: MOST_KNOWN });
const standards: Signers = new LRUCache({ max: MOST_KNOWN });

/** A copy of what has taken the key in already: to take it in anew costs five times as much. */
function signer(known: Signers, secret: string, keyOf: (secret: string) => string | Uint8Array) {
  let first = known.get(secret);
  if (!first) {
    first = hmac(keyOf(secret));
    known.set(secret, first);
  }
  return first.copy();
}

// Half the price of node:crypto's, twice a delivery; but it takes a missing key for none, and signs nothing then.
function hmac(key: string | Uint8Array): Bun.CryptoHasher {
  if (key.length === 0) throw new Error("a signature needs a key");
  return new Bun.CryptoHasher("sha256", key);
}

/**
 * What a receiver does: true when every form of signature that is present is right and at least one is.
 * `secret` may be either of the two that sign during a rotation. `headers` by lowercase name; `now` in epoch
 * milliseconds.
 */
export function verifyDelivery(
  secret: string,
  headers: Record<string, string | undefined>,
  body: string | Uint8Array,
  now: number,
): boolean {
  const service = headers["x-service-signature"];
  const second = headers["x-service-signature-2"];
  const standard = headers["webhook-signature"];
  if (service !== undefined) {
    const expected = serviceSignature(secret, body);
    if (!same(service, expected) && !(second !== undefined && same(second, expected))) return false;
  }
  if (standard === undefined) return service !== undefined;
  const id = headers["webhook-id"] ?? "";
  const timestamp = headers["webhook-timestamp"] ?? "";
  const age = Math.abs(now / 1_000 - Number(timestamp));
  if (!/^\d{1,12}$/.test(timestamp) || age > TOLERANCE_SECONDS) return false;
  const expected = `v1,${standardMac(secret, `${id}.${timestamp}.`, body)}`;
  return standard.split(" ").some((each) => same(each, expected));
}

// Digests have one length, which timingSafeEqual insists on.
const same = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b));
const digest = (text: string) => createHash("sha256").update(text).digest();
