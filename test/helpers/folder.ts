import { afterEach } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const made: string[] = [];

/** A folder of this test's own, gone after it. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "errand-test-"));
  made.push(folder);
  return folder;
}

/** Call once in a file that makes folders. */
export function discardAfterEach(): void {
  afterEach(() => {
    for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
  });
}
