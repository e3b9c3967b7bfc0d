import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

export const probeWrites = {
  // It must reach the disk: an operation that changes nothing would succeed on a full one.
  "storage.probe": (db: Connection, at: number): void => {
    db.run(
      "INSERT INTO settings (name, value) VALUES ('probe', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1",
      String(at),
    );
  },
};

export type Probe = {
  /** Writes one small durable row; rejects while the disk refuses. */
  write(now: number): Promise<void>;
  /** Why nothing can be stored at the moment, in a word; undefined when it can. */
  fault(): string | undefined;
};

export const sqliteProbe = ({ writer }: Storage): Probe => ({
  write: (now) => writer.submit("storage.probe", now),
  fault: () => writer.health().fault,
});
