import { LRUCache } from "lru-cache";
import type { PartLog } from "../http/part-log.ts";
import type { Clock } from "../lib/clock.ts";
import type { Stranger } from "./for-whom.ts";

/** A turn under way or just ended: what readers follow, and which conversation it belongs to. */
export type LiveTurn = {
  turn_id: string;
  conversation_id: string;
  message_id: string;
  log: PartLog;
  /** For a reader that has the beginning of the message from an earlier stream: it is not told that again. */
  continues?: boolean;
  /** Begun by an earlier request of the same Idempotency-Key. */
  replayed?: boolean;
  /** Set where the reader has no key. */
  stranger?: Stranger;
};

/** `isOnRecord`: until then it has its place, and nobody may read it. */
type Running = { turn: LiveTurn; controller: AbortController; begin: () => void; isOnRecord: boolean };

/** Why a turn was aborted, where somebody asked for it. */
export const STOPPED = new Error("stopped");

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
  readonly #running = new Map<string, Running>();
  /** By conversation, in order: the first is answered, the others wait for it. */
  readonly #lines = new Map<string, Running[]>();
  readonly #ended = new LRUCache<string, LiveTurn>({
    maxSize: MOST_KEPT_BYTES,
    sizeCalculation: ({ log }) => BYTES_A_PART * (log.parts.length + 1),
  });
  #whenIdle: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * A turn takes its place behind those of its conversation that run already: one answer at a time, in the
   * order of the messages. `first` resolves when it is its turn; the signal tells it to stop. One that is not on
   * record yet is shown to readers from `show` on.
   */
  open(turn: LiveTurn, isOnRecord = true): { signal: AbortSignal; first: Promise<void>; show: () => void } {
    const { conversation_id } = turn;
    const controller = new AbortController();
    const { promise: first, resolve: begin } = Promise.withResolvers<void>();
    const running = { turn, controller, begin, isOnRecord };
    const show = () => {
      running.isOnRecord = true;
      this.#ended.delete(conversation_id);
    };
    const line = this.#lines.get(conversation_id) ?? [];
    line.push(running);
    this.#lines.set(conversation_id, line);
    this.#running.set(turn.turn_id, running);
    if (isOnRecord) show();
    if (line.length === 1) begin();
    return { signal: controller.signal, first, show };
  }

  close(turn: LiveTurn): void {
    const { conversation_id } = turn;
    const isOnRecord = this.#running.get(turn.turn_id)?.isOnRecord;
    this.#running.delete(turn.turn_id);
    const line = (this.#lines.get(conversation_id) ?? []).filter((each) => each.turn !== turn);
    line[0]?.begin();
    if (line.length > 0) this.#lines.set(conversation_id, line);
    else {
      this.#lines.delete(conversation_id);
      if (isOnRecord) this.#keep(turn);
    }
    if (this.#running.size === 0) for (const wake of this.#whenIdle.splice(0)) wake();
  }

  #keep(turn: LiveTurn): void {
    const { conversation_id } = turn;
    this.#ended.set(conversation_id, turn);
    this.#clock.after(KEPT_MS, () => {
      if (this.#ended.peek(conversation_id) === turn) this.#ended.delete(conversation_id);
    });
  }

  /** The newest turn of a conversation, while it runs and a minute longer. */
  of(conversation_id: string): LiveTurn | undefined {
    return this.running(conversation_id) ?? this.#ended.get(conversation_id);
  }

  /** The newest turn of a conversation, while it runs or waits. */
  running(conversation_id: string): LiveTurn | undefined {
    return this.#lines.get(conversation_id)?.findLast(({ isOnRecord }) => isOnRecord)?.turn;
  }

  /** All that run or wait and are on record. */
  all(): LiveTurn[] {
    return [...this.#running.values()].filter(({ isOnRecord }) => isOnRecord).map(({ turn }) => turn);
  }

  /** A turn that runs or waits. */
  turn(id: string): LiveTurn | undefined {
    return this.#running.get(id)?.turn;
  }

  /** How many turns of a conversation run or wait. */
  count(conversation_id: string): number {
    return this.#lines.get(conversation_id)?.length ?? 0;
  }

  /** Ends the turns of a conversation, or the one named; which they were. */
  stop(conversation_id: string, turn_id?: string): string[] {
    const line = this.#lines.get(conversation_id) ?? [];
    const wanted = line.filter(({ turn }) => turn_id === undefined || turn.turn_id === turn_id);
    for (const { controller, begin } of wanted) {
      controller.abort(STOPPED);
      begin(); // one that waits has nothing to wait for any more
    }
    return wanted.map(({ turn }) => turn.turn_id);
  }

  abort(): void {
    for (const { controller } of this.#running.values()) controller.abort();
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    if (this.#running.size > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }
}
