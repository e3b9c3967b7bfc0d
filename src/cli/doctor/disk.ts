import { existsSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { bytes } from "../../lib/terminal.ts";
import { type Check, fail, ok, warn } from "./check.ts";

const LEAST_BYTES = 64 * 1_048_576;
const COMFORTABLE_BYTES = 1_024 * 1_048_576;

export const disk: Check = {
  name: "free disk",
  run({ config: { data }, database }) {
    let place = data;
    while (!existsSync(place) && dirname(place) !== place) place = dirname(place);
    const { bavail, bsize } = statfsSync(place);
    const free = bavail * bsize;
    const size = database?.bytes ?? 0;
    if (free < LEAST_BYTES)
      return fail(`${bytes(free)} left`, "free some: a full disk refuses every request");
    if (free < COMFORTABLE_BYTES) return warn(`${bytes(free)} left`, "free some before it fills");
    if (free < size)
      return warn(`${bytes(free)} left, less than the database's ${bytes(size)}`, "a backup will not fit");
    return ok(`${bytes(free)} left`);
  },
};
