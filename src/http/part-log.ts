import { type Clock, realTime } from "../lib/clock.ts";
import type { Json, JsonObject } from "../lib/json.ts";

/**
 * What a message stream is made of (interface 4.2), as its producer says it. `retold`: from an earlier stream of
 * the same message, for readers who were not there.
 */
export type StreamPart =
  | { type: "start_step"; message_id: string; retold?: true }
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "data"; data: Json[] }
  /** `is_readers`: whoever reads is to run it. */
  | {
      type: "tool_call";
      id: string;
      name: string;
      args: Json;
      retold?: true;
      is_readers?: true;
      provider_data?: JsonObject;
    }
  | { type: "tool_result"; id: string; result: Json; is_error?: true }
  | { type: "approval_request"; approval_id: string; tool_call_id: string; tool_name: string; args: Json }
  | { type: "finish_step"; reason: string; usage: StreamUsage }
  /** `reason`: why the model stopped, or `error`, or `stopped` where somebody asked for the end. */
  | { type: "finish"; reason: string; usage: StreamUsage; error?: { code: string; message: string } }
  | { type: "error"; message: string };

export type StreamUsage = { prompt_tokens: number; completion_tokens: number };

/** A list of parts that grows until it is done; readers follow it with a cursor of their own. */
export type PartLog = {
  readonly parts: readonly StreamPart[];
  readonly done: boolean;
  readonly clock: Clock;
  /** Calls `wake` whenever there is more or it is done, until the answered function is called. */
  follow(wake: () => void): () => void;
  /** Resolves true when there is more or it is done, false after `ms` of nothing. */
  changed(ms: number): Promise<boolean>;
};

/** A log that its one producer appends to. */
export class LivePartLog implements PartLog {
  readonly parts: StreamPart[] = [];
  done = false;
  readonly clock: Clock;
  readonly #followers = new Set<() => void>();

  constructor(clock: Clock) {
    this.clock = realTime(clock);
  }

  append(...parts: StreamPart[]): void {
    for (const part of parts) this.parts.push(part);
    for (const wake of this.#followers) wake();
  }

  close(): void {
    this.done = true;
    for (const wake of this.#followers) wake();
  }

  follow(wake: () => void): () => void {
    this.#followers.add(wake);
    return () => this.#followers.delete(wake);
  }

  changed(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (hasMore: boolean) => {
        leave();
        cancel();
        resolve(hasMore);
      };
      const leave = this.follow(() => end(true));
      const cancel = this.clock.after(ms, () => end(false));
    });
  }
}
