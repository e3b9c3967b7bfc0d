import { BEAT_MS } from "../lib/beat.ts";

/** A piece of this size is worth being woken for. */
const LARGE = 4_096;

/** Whether more than one piece of an answer comes within a beat, judged by how they came until now. */
export class Gathering {
  #at = Number.NEGATIVE_INFINITY;
  #piece = 0;
  #hasRested = false;

  /** After a piece of so many bytes: whether to read no more until the next beat. */
  pays(length: number, now: number): boolean {
    const isSoon = this.#hasRested ? length > this.#piece * 1.5 : now - this.#at < BEAT_MS / 2;
    if (!this.#hasRested) this.#piece = length;
    this.#at = now;
    this.#hasRested = isSoon && length < LARGE;
    return this.#hasRested;
  }
}
