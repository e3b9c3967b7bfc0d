import { type Egress, EgressError } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject, type Json } from "../lib/json.ts";
import { EventReader } from "./event-reader.ts";
import {
  ModelError,
  type ModelErrorCode,
  type ModelPart,
  type ModelRequest,
  type TimeLimits,
} from "./model.ts";
import { addWords } from "./words.ts";

/** A local server loads its model before its first event. */
export const LIMITS: TimeLimits = {
  connect: 10_000,
  first_token: 120_000,
  between_tokens: 60_000,
  total: 30 * 60_000,
};
const STREAMED = { stream: true };
const LARGEST_STREAM = 64 * 1024 * 1024;
const LONGEST_LINE = 2 * 1024 * 1024;
const NEWLINE = 0x0a;
const MOST_AT_ONCE = 200;

type Asking = {
  url: string;
  headers: Record<string, string>;
  body: unknown;
  limits?: Partial<TimeLimits>;
  /** The operator named this server in the configuration; a local one is the usual case. */
  trusted: boolean;
  signal: AbortSignal;
};

/** `home`: the vendor's own servers, where it is one. */
type Address = { name: string; base_url: string; home?: string };

/** Where a request goes. A caller's own key never goes to a server that it was not meant for. */
export function addressFor({ name, base_url, home }: Address, { access }: ModelRequest): string {
  const url = access ? (access.base_url ?? home) : base_url;
  if (url === undefined) {
    throw new ModelError("MODEL_UNKNOWN", `A key for ${name} needs a base_url beside it.`, false);
  }
  return url.replace(/\/+$/, "");
}

// A reader that does not read is owed one chunk, so a part must not be one by itself.
const MOST_TOGETHER = 4_096;

/** How a provider's events are read, one after the other. Throws ModelError. */
export type AnswerReading = {
  /** The answer is whole; what comes after is not looked at. */
  readonly isOver: boolean;
  read(event: string, tell: (part: ModelPart) => void): void;
  /** What is told at last. */
  end(): Iterable<ModelPart>;
};

/**
 * Posts to a model's server and gives the parts of its answer, as `reading` has them, when their events come in.
 * While much passes, words that came at once are told at once. A client of our own, since `fetch`, and with it the
 * official packages, holds at most 256 requests of a whole process. Throws ModelError, or what `signal` aborted
 * with. One generator and not one for the events and one for the parts: what a word costs is mostly handing it on.
 */
export async function* partsOf(
  { egress, clock }: { egress: Egress; clock: Clock },
  { url, headers, body, limits: given, trusted, signal }: Asking,
  reading: AnswerReading,
): AsyncIterable<ModelPart> {
  const limits = { ...LIMITS, ...given };
  const silence = watchSilence(clock, limits, signal);
  const { beat } = egress;
  try {
    const answer = await egress.stream({
      method: "POST",
      url,
      headers: { "content-type": "application/json", accept: "text/event-stream", ...headers },
      body: JSON.stringify(body),
      timeoutMs: limits.total,
      connectMs: limits.connect,
      trickles: true,
      maxBytes: LARGEST_STREAM,
      trusted,
      signal: silence.signal,
    });
    if (answer.status !== 200)
      throw refusal(answer.status, answer.headers, await textOf(answer.body), clock.now());
    const decoder = new TextDecoder();
    const reader = new EventReader();
    let hasCome = false;
    let line = 0;
    for await (const bytes of answer.body) {
      // What has no end of line is gone over again with every piece that comes.
      const newline = bytes.lastIndexOf(NEWLINE);
      line = newline === -1 ? line + bytes.length : bytes.length - newline;
      if (line > LONGEST_LINE) throw garbage();
      const events = reader.feed(decoder.decode(bytes, STREAMED));
      if (events.length === 0) continue;
      silence.heard();
      beat.passed(events.length);
      hasCome = true;
      for (let from = 0; from < events.length && !reading.isOver; from += MOST_AT_ONCE) {
        // A server that sends all at once gets no more of the loop than one that takes its time.
        if (from > 0) await new Promise((resolve) => setImmediate(resolve));
        const { parts, failure } = saidIn(events, from, reading, beat.isBusy);
        for (const part of parts) yield part;
        if (failure) throw failure;
      }
      if (reading.isOver) break;
    }
    if (!reading.isOver) {
      const last = reader.end();
      if (last.length === 0 && !hasCome) throw garbage();
      const { parts, failure } = saidIn(last, 0, reading, beat.isBusy);
      for (const part of parts) yield part;
      if (failure) throw failure;
    }
  } catch (error) {
    throw signal.aborted ? error : (silence.exceeded() ?? toModelError(error));
  } finally {
    silence.end();
  }
  yield* reading.end();
}

/** What the events from `from` on say, so many at most; and what went wrong after that. */
function saidIn(events: string[], from: number, reading: AnswerReading, isTogether: boolean) {
  const parts: ModelPart[] = [];
  const tell = (part: ModelPart) => {
    if (isTogether && (part.type === "text" || part.type === "reasoning"))
      addWords(parts, part, { most: MOST_TOGETHER });
    else parts.push(part);
  };
  try {
    const to = Math.min(events.length, from + MOST_AT_ONCE);
    for (let at = from; at < to && !reading.isOver; at++) reading.read(events[at]!, tell);
  } catch (failure) {
    return { parts, failure };
  }
  return { parts };
}

/** Aborts with the caller and after too long a silence, and never leaves a timer behind. */
function watchSilence(clock: Clock, limits: TimeLimits, outer: AbortSignal) {
  const inner = new AbortController();
  let late: string | undefined;
  let last: number | undefined;
  const began = clock.now();
  // One timer that looks back, since setting one anew for each token would cost more than the token.
  const look = () => {
    const until = last === undefined ? began + limits.first_token : last + limits.between_tokens;
    const left = until - clock.now();
    if (left > 0) {
      cancel = clock.after(left, look);
      return;
    }
    late = last === undefined ? "begin to answer" : "go on";
    inner.abort();
  };
  let cancel = clock.after(limits.first_token, look);
  return {
    signal: AbortSignal.any([outer, inner.signal]),
    heard() {
      const isFirst = last === undefined;
      last = clock.now();
      if (!isFirst) return;
      cancel();
      cancel = clock.after(limits.between_tokens, look);
    },
    end: () => cancel(),
    exceeded: () =>
      late ? new ModelError("MODEL_TIMEOUT", `The model did not ${late} in time.`, true) : undefined,
  };
}

/** An event's data as an object. Throws where it is none. */
export function parsed(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    if (isObject(value)) return value;
  } catch {
    // said below
  }
  throw garbage();
}

const garbage = () =>
  new ModelError("MODEL_GARBAGE", "The model's server sent something that cannot be read.", false);

export const brokenOff = () => new ModelError("MODEL_INTERRUPTED", "The model's answer broke off.", true);

/** What one answer can call at once; a model that calls more has gone astray. */
export const MOST_CALLS = 256;
export const tooManyCalls = () =>
  new ModelError("MODEL_GARBAGE", `The model called more than ${MOST_CALLS} tools at once.`, false);

/** A failure that a server reports in the middle of its answer. */
export const failedUnderWay = (words: string) =>
  new ModelError("MODEL_FAILED", `The model's server reported a failure under way${quoted(words)}.`, true);

/** Arguments as a call has them; text that is no JSON stays text, and is refused where it is checked. */
export function argumentsOf(text: string): Json {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

export const countOf = (value: unknown): number => (Number.isSafeInteger(value) ? (value as number) : 0);

const LONGEST_REASON = 300;

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > 10_000) break;
  }
  return text;
}

/** What a server says went wrong, in whichever of the usual places it says it. */
export function wordsOf(said: unknown): string {
  if (typeof said === "string") return said;
  if (Array.isArray(said)) return wordsOf(said[0]);
  if (!isObject(said)) return "";
  return wordsOf(said["error"] ?? said["message"] ?? said["detail"]);
}

const quoted = (words: string): string => (words === "" ? "" : `: ${words.slice(0, LONGEST_REASON)}`);

/** The server's own words help with a wrong model name or a used-up budget; they are cut and hold no key. */
function refusal(status: number, headers: Record<string, string>, body: string, now: number): ModelError {
  let said = "";
  try {
    said = quoted(wordsOf(JSON.parse(body)));
  } catch {
    // no words
  }
  const after = retryAfterOf(headers, now);
  const make = (code: ModelErrorCode, what: string, retryable: boolean) =>
    new ModelError(code, what, retryable, after);
  // With these the server may repeat the key that it was given.
  if (status === 401 || status === 403) {
    return make("MODEL_UNAUTHORIZED", `The model's server refuses the configured key (${status}).`, false);
  }
  if (status === 429)
    return make("MODEL_RATE_LIMITED", `The model's server takes no more requests at the moment${said}`, true);
  if (status === 408 || status === 409 || status >= 500)
    return make("MODEL_FAILED", `The model's server failed (${status})${said}`, true);
  return make("MODEL_REFUSED", `The model's server refused the request (${status})${said}`, false);
}

/** In milliseconds: seconds, or a date, or OpenAI's own header in milliseconds. */
function retryAfterOf(headers: Record<string, string>, now: number): number | undefined {
  const exact = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const given = headers["retry-after"];
  if (given === undefined) return undefined;
  const ms = /^\d+(\.\d+)?$/.test(given) ? Number(given) * 1_000 : Date.parse(given) - now;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

function toModelError(error: unknown): unknown {
  if (!(error instanceof EgressError)) return error;
  if (error.class === "timeout") return new ModelError("MODEL_TIMEOUT", "The model took too long.", true);
  // A caller's own server that is not to be reached, or is none, will not be either at the next try.
  const retryable = error.class !== "blocked" && error.class !== "bad_url";
  return new ModelError(
    "MODEL_UNREACHABLE",
    `The model's server cannot be reached (${error.class}).`,
    retryable,
  );
}
