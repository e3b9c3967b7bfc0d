import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { settled, TestClock } from "../helpers/clock.ts";

// The runner looks every 2 s.
const LONGEST_LOOK_MS = 2_500;

/** A clock on a wall: it can be put forward and back, which timers do not feel. */
export class WallClock extends TestClock {
  #offset = 0;

  override now(): number {
    return super.now() + this.#offset;
  }

  jump(ms: number): void {
    this.#offset += ms;
  }

  /** Passes a long time in one step: the runner looks for due work often, and only the last look matters here. */
  leap(ms: number): Promise<void> {
    const rest = Math.min(ms, LONGEST_LOOK_MS);
    this.jump(ms - rest);
    return this.advance(rest);
  }
}

/** The clock of one life of the program: what it set ends with it. */
class LifeClock {
  readonly #wall: TestClock;
  readonly #cancels = new Set<() => void>();
  #isOver = false;

  constructor(wall: TestClock) {
    this.#wall = wall;
  }

  now(): number {
    return this.#wall.now();
  }

  after(ms: number, run: () => void): () => void {
    if (this.#isOver) return () => {};
    const cancel = this.#wall.after(ms, () => {
      this.#cancels.delete(cancel);
      run();
    });
    this.#cancels.add(cancel);
    return () => {
      this.#cancels.delete(cancel);
      cancel();
    };
  }

  stop(): void {
    this.#isOver = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}

export type Moment = "before" | "after";

/**
 * One life of the program on a storage that outlives it: it may die at its next write or a later one, just
 * before that reaches the disk or just after, and nothing that it began answers any more.
 */
export async function beginLife(storage: Storage, wall: TestClock) {
  // What the last life had handed over is on disk before this one looks.
  do await settled(1);
  while (storage.writer.health().queued > 0);
  const clock = new LifeClock(wall);
  const dying = { at: Number.POSITIVE_INFINITY, moment: "before" as Moment };
  let count = 0;
  let isDead = false;
  const never = new Promise<never>(() => {});
  const submit: Storage["writer"]["submit"] = (name, args, mode) => {
    count++;
    if (isDead || (count >= dying.at && dying.moment === "before")) {
      isDead = true;
      return never;
    }
    const written = storage.writer.submit(name, args, mode);
    if (count < dying.at) return written;
    isDead = true;
    return written.then(() => never);
  };
  return {
    storage: { reader: storage.reader, writer: { ...storage.writer, submit } } satisfies Storage,
    clock,
    isDead: () => isDead,
    dieAt(writes: number, moment: Moment) {
      dying.at = count + writes;
      dying.moment = moment;
    },
    bury() {
      isDead = true;
      clock.stop();
    },
    /**
     * Refusals are answers; whoever asks a program that dies is not answered at all. "silent": it lives, and
     * does not answer.
     */
    async asked<T>(asking: Promise<T>): Promise<{ value?: T; silent: boolean }> {
      let value: T | undefined;
      let isOver = false;
      asking.then(
        (answer) => {
          value = answer;
          isOver = true;
        },
        () => {
          isOver = true;
        },
      );
      for (let turn = 0; !isOver && !isDead && turn < 200; turn++) await settled(1);
      return value === undefined ? { silent: !isOver && !isDead } : { value, silent: false };
    },
  };
}
