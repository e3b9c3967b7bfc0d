import type { Pace } from "../lib/clock.ts";

/**
 * What the command line does to a data folder apart from the services: hold it, save it, bring it back,
 * look into it. A contract, so that commands do not know the engine.
 */
export type DataFolder = {
  /** The newest schema that this program knows. */
  latestSchema(): number;
  engine(): { name: string; version: string };
  /** Takes the folder for this process until released or dead. Throws FolderLocked. */
  lock(folder: string, holder: { version: string }): FolderLock;
  /** Who holds the folder; undefined when nobody does. */
  holder(folder: string): Holder | undefined;
  /** The schema of the folder's database; undefined where there is no database yet. */
  schema(folder: string): number | undefined;
  /** Undefined where there is no database yet. */
  inspect(folder: string): Inspection | undefined;
  /** Runs through the whole database; answers what is wrong with it, nothing when it is sound. */
  check(folder: string): string[];
  /** Every step of the schema and when it was applied; beside a running server. */
  migrations(folder: string): { version: number; name: string; applied_at: string | null }[];
  /** Applies the pending steps, after a backup. Throws FolderLocked while a server runs. */
  migrate(folder: string, options: { version: string; now: number }): { from: number; to: number };
  /** Writes one consistent, checked file, also while a server runs. Throws BackupError. */
  backup(folder: string, options: BackupOptions): BackupReport;
  /** Reads a backup through and compares it with what it says of itself. Throws BackupError. */
  verify(file: string): BackupReport;
  /** Brings a backup into a folder. Throws BackupError, FolderLocked. */
  restore(
    file: string,
    folder: string,
    options: { force: boolean; version: string; now: number },
  ): RestoreReport;
  /** The backups in the folder's own place for them, newest first. */
  backups(folder: string): { file: string; bytes: number; modified_at: string }[];
};

/** `announce` tells others where the holder listens, `notice` under which other name it is called. */
export type FolderLock = { announce(url: string): void; notice(host: string): void; release(): void };

export type Holder = {
  pid: number | null;
  host: string | null;
  version: string | null;
  started_at: string | null;
  url: string | null;
  /** A name that callers reach it by, other than the one in its `public_url`. */
  other_host: string | null;
  /** How its time runs, where that is faster than the wall's: those who work beside it keep the same. */
  pace: Pace | null;
};

/** Another process works on the folder. */
export class FolderLocked extends Error {
  constructor(
    readonly folder: string,
    readonly holder: Holder,
  ) {
    const who =
      holder.pid === null ? "another errand" : `errand with process id ${holder.pid} on ${holder.host}`;
    super(`${folder} is in use by ${who}`);
    this.name = "FolderLocked";
  }
}

export type Inspection = {
  path: string;
  schema: number;
  bytes: number;
  /** Bytes that the database would give back. */
  free_bytes: number;
  /** The write-ahead log: grows while something reads for long. */
  log_bytes: number;
  rows: Record<string, number>;
  /** A sealed word that only the right key opens; undefined where nothing was sealed yet. */
  sentinel: string | undefined;
  last_write_at: number | null;
  /** Executions of the last week that were given up because the program died of them again and again. */
  given_up: string[];
};

export type BackupOptions = {
  /** Undefined: a new file in the folder's own place for backups. */
  file?: string;
  version: string;
  now: number;
  /** The key that secrets are sealed with, to be kept in the file. */
  key?: string;
};

export type BackupReport = {
  file: string;
  bytes: number;
  schema: number;
  version: string | null;
  created_at: string | null;
  /** Whether the key that opens its secrets lies in it. */
  has_key: boolean;
  rows: Record<string, number>;
};

export type RestoreReport = BackupReport & {
  folder: string;
  /** Where what was there before lies now. */
  kept: string | null;
};

/** A backup that cannot be made or used. Nothing was changed. */
export class BackupError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
    this.name = "BackupError";
  }
}
