import type { JobRow } from "./job.ts";

// Of all keys together, of one, and of one whose jobs may take long: whoever keeps his slots need not have the next
// in memory, and four hundred such receivers are to fill neither that nor the others' room.
const MOST_QUEUED = 16_384;
const MOST_OF_KEY = 4_096;
const MOST_OF_UNPROVEN = 32;
const MOST_SIZE = 32 * 1_024 * 1_024;

// A line that never runs empty gives its memory back from time to time.
const COMPACT_AT = 1_024;

/** `size`: of the payload, in characters. */
export type Queued = { row: JobRow; payload: unknown; size: number };

/**
 * Jobs without a row that wait in memory for a slot, by key, oldest first. Lost with the program, which finds
 * what they work again at its next start.
 */
export class Queue {
  readonly #byKey = new Map<string, { jobs: Queued[]; next: number }>();
  // Room that is given away: to jobs that are here, and to those whose commit is under way.
  #taken = 0;
  #size = 0;

  /** Whether one more job of the key has room, which is kept for it from then on. */
  reserve(key: string, size: number, isProven: boolean): boolean {
    const most = isProven ? MOST_OF_KEY : MOST_OF_UNPROVEN;
    if (this.#taken >= MOST_QUEUED || this.#size + size > MOST_SIZE || this.count(key) >= most) return false;
    this.#taken++;
    this.#size += size;
    return true;
  }

  /** The room of a job that was never added. */
  release(size: number): void {
    this.#taken--;
    this.#size -= size;
  }

  add(key: string, job: Queued): void {
    const line = this.#byKey.get(key);
    if (line) line.jobs.push(job);
    else this.#byKey.set(key, { jobs: [job], next: 0 });
  }

  get size(): number {
    return this.#taken;
  }

  count(key: string): number {
    const line = this.#byKey.get(key);
    return line ? line.jobs.length - line.next : 0;
  }

  /** The oldest of the key. */
  take(key: string): Queued | undefined {
    const line = this.#byKey.get(key);
    const job = line?.jobs[line.next];
    if (!line || !job) return undefined;
    this.release(job.size);
    line.next++;
    if (line.next === line.jobs.length) this.#byKey.delete(key);
    else if (line.next === COMPACT_AT) {
      line.jobs.splice(0, line.next);
      line.next = 0;
    }
    return job;
  }
}
