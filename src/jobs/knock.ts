import { closeSync, openSync, utimesSync, watch } from "node:fs";

// How the command line tells a server that it put a job down, or deleted what the server may be answering in: it
// touches a file that the server watches. A knock that nobody hears (a network disk, say) costs the wait for the
// next sweep, or the next minute, and nothing else.

/** Knocks, if anybody ever listened here. */
export function knock(file: string, now: number): void {
  try {
    utimesSync(file, now / 1_000, now / 1_000);
  } catch {
    // No server has run in this folder.
  }
}

/** Calls `heard` at every knock; the answer ends it. */
export function listenForKnocks(file: string, heard: () => void): () => void {
  try {
    closeSync(openSync(file, "a", 0o600));
    const watcher = watch(file, { persistent: false }, heard);
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => {}; // no watching here: the sweep finds everything
  }
}
