import { type Check, fail, ok, warn } from "./check.ts";

// No installation is older than the program.
const EARLIEST = Date.UTC(2025, 0, 1);
const SMALL_STEP_MS = 5_000;

export const clock: Check = {
  name: "clock",
  run({ now, database }) {
    const told = new Date(now).toISOString();
    if (now < EARLIEST)
      return fail(`${told} is in the past`, "set the machine's clock; TLS and signatures fail");
    const newest = database?.last_write_at ?? 0;
    if (newest > now + SMALL_STEP_MS) {
      return warn(
        `${told} is before the newest record (${new Date(newest).toISOString()})`,
        "the clock went back; what is due waits for it",
      );
    }
    return ok(told);
  },
};
