import { type Check, ok, warn } from "./check.ts";

export const givenUp: Check = {
  name: "runs given up",
  run({ database }) {
    const ids = database?.given_up ?? [];
    if (ids.length === 0) return ok("none in the last week");
    return warn(
      `the program died of ${ids.length === 1 ? "a run" : `${ids.length} runs`} again and again: ${ids.join(", ")}`,
      `errand runs show ${ids[0]} says which step was under way`,
    );
  },
};
