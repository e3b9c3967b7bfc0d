import { describe, expect, test } from "bun:test";
import { BEAT_MS, Beat } from "../../src/lib/beat.ts";
import { TestClock } from "../helpers/clock.ts";

describe("a process that streams", () => {
  const setup = () => {
    const clock = new TestClock();
    const beat = new Beat(clock);
    /** So many words a second, for half a second. */
    const stream = async (rate: number) => {
      for (let n = 0; n < 10; n++) {
        await clock.advance(50);
        beat.passed(rate / 20);
      }
      return beat.isBusy;
    };
    return { clock, beat, stream };
  };

  test("is busy from some thousand words a second on, and stays so until it is half as many", async () => {
    const { stream } = setup();
    expect(await stream(4_000)).toBe(false);
    expect(await stream(6_000)).toBe(true);
    expect(await stream(3_000)).toBe(true);
    expect(await stream(2_000)).toBe(false);
  });

  test("is not busy any more at the first word after a pause", async () => {
    const { clock, beat, stream } = setup();
    await stream(50_000);
    await clock.advance(60_000);
    beat.passed(1);
    expect(beat.isBusy).toBe(false);
  });

  test("goes by no clock that was set back", async () => {
    let now = 1_000_000;
    const beat = new Beat({ now: () => now, after: () => () => {} });
    now -= 3_600_000;
    beat.passed(10);
    now += 100;
    beat.passed(10);
    expect(beat.isBusy).toBe(false);
    now += 100;
    beat.passed(10_000);
    expect(beat.isBusy).toBe(true);
  });

  test("does what was put off a beat later, in order, each at its own time", async () => {
    const { clock, beat } = setup();
    const done: string[] = [];
    beat.later(() => done.push("a"));
    beat.later(() => done.push("b"));
    await clock.advance(BEAT_MS / 2);
    beat.later(() => {
      done.push("c");
      beat.later(() => done.push("d"));
    });
    await clock.advance(BEAT_MS / 2 - 1);
    expect(done).toEqual([]);
    await clock.advance(1);
    expect(done).toEqual(["a", "b"]);
    await clock.advance(BEAT_MS / 2);
    expect(done).toEqual(["a", "b", "c"]);
    await clock.advance(BEAT_MS);
    expect(done).toEqual(["a", "b", "c", "d"]);
  });
});
