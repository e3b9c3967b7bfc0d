import type { Placement } from "./placement.ts";

const MOST = 4_000;
// In characters, of all together: a few thousand large ones would fill the memory.
const MOST_SIZE = 32 * 1_024 * 1_024;

/**
 * Payloads of jobs that have a row and wait for a slot: most are claimed within moments, and need no read then.
 * What has no room here is read.
 */
export class Parked {
  readonly #held = new Map<string, Placement>();
  #size = 0;

  add(placement: Placement): void {
    const { row, payload, size = 0 } = placement;
    if (payload === undefined || this.#held.size >= MOST || this.#size + size > MOST_SIZE) return;
    this.#held.set(row.id, placement);
    this.#size += size;
  }

  take(id: string): unknown {
    const placement = this.#held.get(id);
    if (!placement) return undefined;
    this.#held.delete(id);
    this.#size -= placement.size ?? 0;
    return placement.payload;
  }

  /** Of a job that nobody will claim any more. */
  forget(ref: string): void {
    for (const [id, { row }] of this.#held) if (row.ref === ref) this.take(id);
  }
}
