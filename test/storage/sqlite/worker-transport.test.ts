import { expect, test } from "bun:test";
import { EXIT } from "../../../src/cli/exit.ts";
import { explain } from "../../../src/failures.ts";
import { startWorker } from "../../../src/storage/sqlite/worker-transport.ts";
import { discardAfterEach, scratchFolder } from "../../helpers/folder.ts";

discardAfterEach();

test("a file that the writer thread cannot open is a failure with a hint, not a crash", async () => {
  const thread = startWorker(() => {});
  try {
    // A folder in the place of the file: a full disk or a failing one comes the same way.
    const failure = await thread.open(scratchFolder()).then(
      () => undefined,
      (error) => explain(error),
    );
    expect(failure?.code).toBe(EXIT.failed);
    expect(failure?.message).not.toContain(" at ");
    expect(failure?.hint).toContain("writable");
  } finally {
    thread.end();
  }
});
