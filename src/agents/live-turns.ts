import { LRUCache } from "lru-cache";
import type { PartLog } from "../http/part-log.ts";
import type { Clock } from "../lib/clock.ts";

/** A turn under way or just ended: what readers follow, and which conversation it belongs to. */
export type LiveTurn = { turn_id: string; conversation_id: string; message_id: string; log: PartLog };

const KEPT_MS = 60_000;
/** Of ended turns together; a part costs its line and what holds it. */
const MOST_KEPT_BYTES = 16 * 1024 * 1024;
const BYTES_A_PART = 200;

/**
 * The turns of this process: those under way, and for a minute those that ended, so that a reader whose
 * connection broke finds the whole answer again. The record is the database; this is for readers only.
 */
export class LiveTurns {
  readonly #clock: Clock;
  readonly #running = new Map<string, { turn: LiveTurn; controller: AbortController }>();
  readonly #latest = new Map<string, LiveTurn>();
  readonly #ended = new LRUCache<string, LiveTurn>({
    maxSize: MOST_KEPT_BYTES,
    sizeCalculation: ({ log }) => BYTES_A_PART * (log.parts.length + 1),
  });
  #whenIdle: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A turn begins; the signal tells it to stop. */
  open(turn: LiveTurn): AbortSignal {
    const controller = new AbortController();
    this.#running.set(turn.turn_id, { turn, controller });
    this.#latest.set(turn.conversation_id, turn);
    this.#ended.delete(turn.conversation_id);
    return controller.signal;
  }

  close(turn: LiveTurn): void {
    const { conversation_id } = turn;
    this.#running.delete(turn.turn_id);
    if (this.#latest.get(conversation_id) === turn) {
      this.#latest.delete(conversation_id);
      this.#ended.set(conversation_id, turn);
      this.#clock.after(KEPT_MS, () => {
        if (this.#ended.peek(conversation_id) === turn) this.#ended.delete(conversation_id);
      });
    }
    if (this.#running.size === 0) for (const wake of this.#whenIdle.splice(0)) wake();
  }

  /** The newest turn of a conversation, while it runs and a minute longer. */
  of(conversation_id: string): LiveTurn | undefined {
    return this.#latest.get(conversation_id) ?? this.#ended.get(conversation_id);
  }

  abort(): void {
    for (const { controller } of this.#running.values()) controller.abort();
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    if (this.#running.size > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }
}
