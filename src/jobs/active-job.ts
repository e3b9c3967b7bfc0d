import type { Cancel } from "../lib/cancel.ts";
import type { JobRow, JobRun, Lease, News } from "./job.ts";

/** A job under way. A signal costs more than a short job does, so it is made when something asks for it. */
export class ActiveJob implements JobRun, Cancel, News {
  readonly lease: Lease;
  /** Found under way when the lane was crowded, and then put aside. */
  found: "not yet" | "once" | "aside" = "not yet";
  elsewhere?: number;
  /** Has no slot any more: only its record is missing. */
  hasLeft = false;
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  // Mostly there is one, and a set for it would cost more than telling it.
  #listener: (() => void) | undefined;
  #others: Set<() => void> | undefined;
  #wakes = 0;
  #hearers: Set<() => void> | undefined;

  constructor(
    readonly row: JobRow,
    readonly payload: unknown,
    isStored: boolean,
    private readonly left: (job: ActiveJob) => void = () => {},
  ) {
    this.lease = { id: row.id, attempt: row.attempt };
    if (!isStored) this.lease.unstored = true;
  }

  get attempt(): number {
    return this.row.attempt;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#reason) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  get cancel(): Cancel {
    return this;
  }

  get aborted(): boolean {
    return this.#reason !== undefined;
  }

  addEventListener(_: "abort", listener: () => void): void {
    if (!this.#listener) this.#listener = listener;
    else if (this.#listener !== listener) {
      this.#others ??= new Set();
      this.#others.add(listener);
    }
  }

  removeEventListener(_: "abort", listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
    else this.#others?.delete(listener);
  }

  isAborted(): boolean {
    return this.#reason !== undefined;
  }

  get news(): News {
    return this;
  }

  leave(): void {
    if (!this.hasLeft) this.left(this);
  }

  count(): number {
    return this.#wakes;
  }

  listen(hear: () => void): () => void {
    this.#hearers ??= new Set();
    this.#hearers.add(hear);
    return () => void this.#hearers?.delete(hear);
  }

  wake(): void {
    this.#wakes++;
    for (const hear of this.#hearers ?? []) hear();
  }

  abort(reason: Error): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    this.#listener?.();
    for (const listener of this.#others ?? []) listener();
  }
}
