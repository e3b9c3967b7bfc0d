import { type Egress, EgressError, type EgressErrorClass } from "../egress/egress.ts";
import type { Cancel } from "../lib/cancel.ts";
import { type Clock, realTime } from "../lib/clock.ts";
import { conceal, formsOf } from "../lib/conceal.ts";
import type { Vault } from "../lib/vault.ts";
import { authenticationHeaders } from "./authentication.ts";
import { parseRetryAfter } from "./retry-schedule.ts";
import { openSubscription } from "./sealed.ts";
import { signatureHeaders } from "./signature.ts";
import type { DeliveryTarget } from "./store.ts";

export type Sender = { egress: Pick<Egress, "request">; vault: Vault; clock: Clock; version: string };

/** One attempt's content. `id` is the event's: the same on every attempt and redelivery. */
export type Outgoing = { id: string; body: string; attempt: number; hop: number };

export type Answered = {
  started_at: number;
  response_code: number | null;
  response_time_ms: number;
  response_excerpt: string | null;
  /** Set when there was no answer. */
  error_class: EgressErrorClass | null;
  /** Set for everything but 2xx. */
  error: string | null;
  retry_after_ms?: number;
  /** It was longer than is read: its connection is lost, and so was the time. */
  truncated?: boolean;
};

/** Interface 6.3.5: a receiver has this long in all, body included. */
export const ATTEMPT_MS = 30_000;
// Read to the end up to here, so that the connection can be used again; longer answers cost theirs.
const LONGEST_ANSWER = 64 * 1_024;
const EXCERPT_LENGTH = 2 * 1_024;

type Headers = Record<string, string>;

/** Whether a header is ours: what the owner of a subscription set may be a credential. */
export const isOurs = (name: string): boolean =>
  /^(content-type|user-agent|webhook-.*|x-service-.*)$/i.test(name);

type Opened = ReturnType<typeof openSubscription>;
const alikes = new WeakMap<Opened, { version: string; headers: Headers }>();

/** What every attempt for a subscription carries alike, its own headers first: none can displace ours. */
function alikeOf(opened: Opened, version: string): Headers {
  const known = alikes.get(opened);
  if (known?.version === version) return known.headers;
  const own = { ...opened.headers, ...authenticationHeaders(opened.authentication) };
  const headers = {
    ...Object.fromEntries(Object.entries(own).filter(([name]) => !isOurs(name))),
    "Content-Type": "application/json",
    "User-Agent": `Errand/${version}`,
  };
  alikes.set(opened, { version, headers });
  return headers;
}

/** All headers of an attempt: `alike` is the same object for each of a subscription. */
export function deliveryHeaders(
  { vault, clock, version }: Pick<Sender, "vault" | "clock" | "version">,
  target: Pick<
    DeliveryTarget,
    "id" | "secret" | "previous_secret" | "previous_secret_until" | "authentication" | "headers"
  >,
  { id, body, attempt, hop }: Outgoing,
): { alike: Headers; headers: Headers } {
  const opened = openSubscription(vault, target);
  const { secret, previous_secret } = opened;
  const overlaps = previous_secret !== undefined && (target.previous_secret_until ?? 0) > clock.now();
  const at = realTime(clock).now();
  const headers = signatureHeaders(secret, { id, at, body }, overlaps ? previous_secret : undefined);
  headers["X-Service-Attempt"] = String(attempt);
  headers["X-Service-Hop"] = String(hop);
  return { alike: alikeOf(opened, version), headers };
}

/** Sends once. Throws only when the attempt was given up by `signal`. */
export async function sendOnce(
  { egress, clock }: Pick<Sender, "egress" | "clock">,
  request: {
    url: string;
    headers: Headers;
    alike?: Headers;
    body: string;
    timeoutMs: number;
    signal?: Cancel;
  },
): Promise<Answered> {
  const started_at = clock.now();
  const started = performance.now();
  try {
    const answer = await egress.request({ method: "POST", ...request, maxBytes: LONGEST_ANSWER });
    return {
      started_at,
      response_code: answer.status,
      response_time_ms: Math.round(answer.durationMs),
      response_excerpt: excerptOf(answer.body, request),
      error_class: null,
      error: refusalOf(answer.status, answer.headers["location"], request),
      retry_after_ms: parseRetryAfter(answer.headers["retry-after"], realTime(clock).now()),
      truncated: answer.truncated,
    };
  } catch (error) {
    if (!(error instanceof EgressError) || error.class === "aborted") throw error;
    return {
      started_at,
      response_code: null,
      response_time_ms: Math.round(performance.now() - started),
      response_excerpt: null,
      error_class: error.class,
      error: error.message,
    };
  }
}

type Sent = { headers: Headers; alike?: Headers };

function refusalOf(status: number, location: string | undefined, sent: Sent): string | null {
  if (status >= 200 && status < 300) return null;
  const moved =
    status >= 300 && status < 400 && location
      ? ` and points to ${withoutCredentials(location, sent).slice(0, 200)}`
      : "";
  return `the receiver answered ${status}${moved}`;
}

function excerptOf(body: Uint8Array, sent: Sent): string | null {
  if (body.length === 0) return null;
  const text = withoutCredentials(new TextDecoder().decode(body), sent);
  return text.slice(0, EXCERPT_LENGTH).replaceAll("\u0000", "\ufffd");
}

// Whole texts and not what will be left of them: a credential that is cut in two is not found.
function withoutCredentials(text: string, sent: Sent): string {
  const credentials = Object.entries({ ...sent.alike, ...sent.headers })
    .filter(([name]) => !isOurs(name))
    .flatMap(([name, value]) =>
      /^authorization$/i.test(name) ? [value, ...inAuthorization(value)] : [value],
    );
  return credentials.length === 0 ? text : conceal(text, formsOf(credentials));
}

function inAuthorization(value: string): string[] {
  const [scheme, credential = ""] = value.split(" ");
  if (scheme !== "Basic") return [credential];
  const login = Buffer.from(credential, "base64").toString();
  return [credential, login, login.slice(login.indexOf(":") + 1)];
}
