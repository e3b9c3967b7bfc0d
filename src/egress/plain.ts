import type { Answer } from "./answer.ts";
import { EgressError } from "./errors.ts";
import type { Limit } from "./limit.ts";

/**
 * A body that nobody has packed, chunk by chunk: what generators would do in four steps each in one, since a
 * model sends a chunk for every word. Leaving the loop early closes the connection.
 */
export class Plain implements AsyncIterableIterator<Uint8Array> {
  readonly #answer: Answer;
  readonly #max: number;
  readonly #limit: Limit;
  #size = 0;
  #hasEnded = false;

  constructor(answer: Answer, max: number, limit: Limit) {
    this.#answer = answer;
    this.#max = max;
    this.#limit = limit;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#hasEnded) return END;
    try {
      const value = await this.#answer.body.read();
      if (!value) {
        if (this.#limit.error) throw this.#limit.error; // without a length, a body that was cut off looks ended
        return this.#end();
      }
      this.#size += value.length;
      if (this.#size > this.#max)
        throw new EgressError("other", `the answer is longer than ${this.#max} bytes`);
      return { done: false, value };
    } catch (error) {
      this.#end();
      throw this.#limit.error ?? error;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    return this.#end();
  }

  #end(): IteratorResult<Uint8Array> {
    this.#hasEnded = true;
    this.#answer.body.destroy();
    this.#limit.release();
    return END;
  }
}

const END = { done: true as const, value: undefined };
