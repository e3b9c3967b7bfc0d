import type { EgressRequest } from "./egress.ts";
import { EgressError } from "./errors.ts";
import type { Target } from "./guard.ts";
import type { Head } from "./response-reader.ts";

const DROPPED = new Set([
  "host",
  "connection",
  "content-length",
  "expect",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
// All that follows a redirect to another origin: whatever else was set may be a credential.
const HARMLESS = new Set(["accept", "accept-language", "content-type", "user-agent"]);

type Verdict = "sent" | "dropped" | "refused";

// Names repeat from request to request; whoever makes up new ones must not fill memory.
const verdicts = new Map<string, Verdict>();
const MOST_VERDICTS = 1_000;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

function verdictOn(name: string): Verdict {
  let verdict = verdicts.get(name);
  if (verdict === undefined) {
    if (verdicts.size >= MOST_VERDICTS) verdicts.clear();
    verdict = DROPPED.has(name.toLowerCase()) ? "dropped" : NAME.test(name) ? "sent" : "refused";
    verdicts.set(name, verdict);
  }
  return verdict;
}

/** One request of a chain of redirects. */
export type Hop = {
  target: Target;
  method: string;
  /** Ours that frame it are no part of them; those that are given for such are not sent. */
  headers: Record<string, string>;
  /** Without what is dropped. */
  alike?: HeaderLines;
  body?: string | Uint8Array;
  trusted: boolean;
  connectMs?: number;
  trickles?: boolean;
};

export function firstHop(request: EgressRequest, target: Target): Hop {
  const { body, headers = NONE, alike } = request;
  const { method, trusted = false, connectMs, trickles } = request;
  return { target, method, headers, alike: alike && keptLines(alike), body, trusted, connectMs, trickles };
}

const NONE: Record<string, string> = {};

const kept = new WeakMap<object, HeaderLines>();

function keptLines(alike: Record<string, string>): HeaderLines {
  let lines = kept.get(alike);
  if (!lines) {
    lines = { headers: alike, ...linesOf(alike) };
    kept.set(alike, lines);
  }
  return lines;
}

/** Headers and their lines on the wire; `isPlain`: of ASCII alone. */
export type HeaderLines = { headers: Record<string, string>; text: string; isPlain: boolean };

const PLAIN = /^[\t\x20-\x7e]*$/;
const ALLOWED = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Without those that are dropped. Throws EgressError `other` for what cannot be a header: a line break in a value
 * would be a second header.
 */
export function linesOf(headers: Record<string, string>): { text: string; isPlain: boolean } {
  let text = "";
  let isPlain = true;
  for (const name in headers) {
    const verdict = verdictOn(name);
    if (verdict === "dropped") continue;
    if (verdict === "refused") throw new EgressError("other", "a header's name has forbidden characters");
    const value = headers[name]!;
    if (!PLAIN.test(value)) {
      if (!ALLOWED.test(value)) throw new EgressError("other", `header ${name} has forbidden characters`);
      isPlain = false;
    }
    text += `${name}: ${value}\r\n`;
  }
  return { text, isPlain };
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Where a redirect leads; undefined when the answer is none. */
export function locationOf(hop: Hop, { status, headers }: Head): string | undefined {
  const { location } = headers;
  if (!REDIRECTS.has(status) || !location) return undefined;
  if (!URL.canParse(location, hop.target.url)) throw new EgressError("bad_url", "redirected to no valid URL");
  return new URL(location, hop.target.url).href;
}

/** The request a redirect asks for: RFC 9110 section 15.4. */
export function nextHop(hop: Hop, status: number, target: Target, trusted: boolean): Hop {
  const sameOrigin = target.origin === hop.target.origin;
  const becomesGet =
    (status === 303 && hop.method !== "HEAD") ||
    ((status === 301 || status === 302) && hop.method === "POST");
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...hop.alike?.headers, ...hop.headers })) {
    const lower = name.toLowerCase();
    if (becomesGet && lower === "content-type") continue;
    if (sameOrigin || HARMLESS.has(lower)) headers[name] = value;
  }
  const body = becomesGet ? undefined : hop.body;
  return { target, method: becomesGet ? "GET" : hop.method, headers, body, trusted, trickles: hop.trickles };
}

const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);

/** Whether a second copy could do no harm: the method promises it, or a key lets the receiver tell. */
export const maySendAgain = ({ method, headers, alike }: Hop): boolean =>
  IDEMPOTENT.has(method) ||
  Object.keys({ ...alike?.headers, ...headers }).some((name) => /^(webhook-id|idempotency-key)$/i.test(name));
