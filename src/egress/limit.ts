import type { Cancel } from "../lib/cancel.ts";
import { EgressError } from "./errors.ts";

/** Ends a request when its time is up or its caller gives up; one per request, over all its redirects. */
export class Limit implements Deadline {
  error: EgressError | undefined;
  readonly at: number;
  #end: ((error: EgressError) => void) | undefined;
  readonly #timeoutMs: number;
  readonly #signal: Cancel | undefined;
  readonly #abort = () => this.#fire(new EgressError("aborted", "the request was given up"));

  constructor({ timeoutMs, signal }: { timeoutMs: number; signal?: Cancel }) {
    this.#signal = signal;
    this.#timeoutMs = timeoutMs;
    this.at = performance.now() + timeoutMs;
    watch(this);
    if (signal?.aborted) this.#abort();
    else signal?.addEventListener("abort", this.#abort, { once: true });
  }

  pass(): void {
    this.#fire(new EgressError("timeout", `no complete answer within ${this.#timeoutMs} ms`));
  }

  onEnd(end: (error: EgressError) => void): void {
    this.#end = end;
    if (this.error) end(this.error);
  }

  /** What `work` answers, unless the limit ends first. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.onEnd(reject);
      work.then(resolve, reject);
    });
  }

  release(): void {
    deadlines.delete(this);
    this.#signal?.removeEventListener("abort", this.#abort);
  }

  #fire(error: EgressError): void {
    if (this.error) return;
    this.error = error;
    this.#end?.(error);
  }
}

// One timer for all requests: a timer of its own would cost each of them more than its signature does.
type Deadline = { at: number; pass(): void };
const deadlines = new Set<Deadline>();
let timer: ReturnType<typeof setTimeout> | undefined;
let wakesAt = Number.POSITIVE_INFINITY;

// To end a request and its connection takes a tenth of a millisecond: hundreds that began together do not end so.
const MOST_AT_ONCE = 32;
// Who is woken so late stood still, and answers that came meanwhile have not been read yet.
const STOOD_STILL_MS = 100;
let hasLooked = false;

function watch(deadline: Deadline): void {
  deadlines.add(deadline);
  if (deadline.at < wakesAt) wake(deadline.at);
}

function wake(at: number): void {
  clearTimeout(timer);
  wakesAt = at;
  timer = setTimeout(passed, Math.max(1, at - performance.now()));
}

function passed(): void {
  const now = performance.now();
  if (now - wakesAt > STOOD_STILL_MS && !hasLooked) {
    hasLooked = true;
    timer = setTimeout(passed, 1); // the sockets are read first
    return;
  }
  hasLooked = false;
  wakesAt = Number.POSITIVE_INFINITY;
  timer = undefined;
  let next = Number.POSITIVE_INFINITY;
  let left = MOST_AT_ONCE;
  for (const deadline of deadlines) {
    if (deadline.at <= now && left > 0) {
      left--;
      deadlines.delete(deadline);
      deadline.pass();
    } else if (deadline.at < next) next = deadline.at;
  }
  if (next < wakesAt) wake(next);
}
