import { EgressError } from "./errors.ts";

/** Ends a request when its time is up or its caller gives up; one per request, over all its redirects. */
export class Limit {
  error: EgressError | undefined;
  #end: ((error: EgressError) => void) | undefined;
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.#fire(new EgressError("aborted", "the request was given up"));

  constructor({ timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal }) {
    this.#signal = signal;
    this.#timer = setTimeout(
      () => this.#fire(new EgressError("timeout", `no complete answer within ${timeoutMs} ms`)),
      timeoutMs,
    );
    if (signal?.aborted) this.#abort();
    else signal?.addEventListener("abort", this.#abort, { once: true });
  }

  onEnd(end: (error: EgressError) => void): void {
    this.#end = end;
    if (this.error) end(this.error);
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#abort);
  }

  #fire(error: EgressError): void {
    if (this.error) return;
    this.error = error;
    this.#end?.(error);
  }
}
