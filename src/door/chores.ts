import type { Chore } from "../jobs/maintenance.ts";
import type { Clock } from "../lib/clock.ts";
import type { ResponseStore } from "./response-store.ts";

/** As long as OpenAI keeps them. */
const KEPT_MS = 30 * 86_400_000;
// Few, since each may hold pictures.
const SLICE = 50;

export const forgetResponses = ({
  store,
  clock,
}: {
  store: Pick<ResponseStore, "forget">;
  clock: Clock;
}): Chore => ({
  name: "forget responses",
  pattern: "37 * * * *",
  async run() {
    const before = clock.now() - KEPT_MS;
    while ((await store.forget(before, SLICE)) === SLICE);
  },
});
