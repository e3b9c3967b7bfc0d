import { EXIT, type ExitCode, ExitError } from "./cli/exit.ts";
import { ListenError } from "./http/listen.ts";
import { AppError } from "./lib/errors.ts";
import { SettingError } from "./lib/settings.ts";
import { VaultError } from "./lib/vault.ts";
import { BackupError, FolderLocked } from "./storage/folder.ts";
import { ChangedMigration, ForeignDatabase, LateMigration, NewerDatabase } from "./storage/sqlite/migrate.ts";

export type Failure = { code: ExitCode; message: string; hint?: string };

/** What each failure means to whoever typed the command. What is not foreseen here is a bug of ours: 70. */
export function explain(error: unknown): Failure {
  if (error instanceof ExitError) return error;
  if (error instanceof SettingError) return { code: EXIT.usage, message: error.message, hint: error.hint };
  if (error instanceof AppError) {
    const code = error.code === "invalid_input" ? EXIT.usage : EXIT.refused;
    return { code, message: error.message, hint: error.extra.hint };
  }
  if (error instanceof FolderLocked) {
    const hint = error.holder.url
      ? `it answers at ${error.holder.url}; stop it first, or choose another folder with --data`
      : "stop it first, or choose another folder with --data";
    return { code: EXIT.busy, message: error.message, hint };
  }
  if (error instanceof ListenError) {
    if (error.reason === "in_use") {
      return {
        code: EXIT.busy,
        message: error.message,
        hint: "choose another with --port, or a free one with --port 0",
      };
    }
    const hint =
      error.reason === "not_permitted" ? "ports below 1024 need rights; take a higher one" : "see --host";
    return { code: EXIT.failed, message: error.message, hint };
  }
  if (error instanceof NewerDatabase) {
    return {
      code: EXIT.newer,
      message: error.message,
      hint: "use the newer errand, or restore an older backup",
    };
  }
  if (error instanceof ForeignDatabase) {
    return { code: EXIT.failed, message: error.message, hint: "choose another folder with --data" };
  }
  if (error instanceof ChangedMigration || error instanceof LateMigration) {
    return {
      code: EXIT.newer,
      message: error.message,
      hint: "this errand and the one that made the database are not of one line",
    };
  }
  if (error instanceof BackupError) return { code: EXIT.refused, message: error.message, hint: error.hint };
  if (error instanceof VaultError) return { code: EXIT.failed, message: error.message, hint: error.hint };
  return (
    fromSystem(error) ?? {
      code: EXIT.crash,
      message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    }
  );
}

const SYSTEM: Record<string, string> = {
  EACCES: "the folder must be writable by the user that runs errand",
  EPERM: "the folder must be writable by the user that runs errand",
  EROFS: "the file system is read-only; choose another folder with --data",
  ENOSPC: "the disk is full",
  ENOTDIR: "--data must name a folder",
  EEXIST: "--data must name a folder",
  ENOENT: "--data must name a folder that can be made",
  ENAMETOOLONG: "--data must name a folder that can be made",
  SQLITE_CANTOPEN: "the data folder must be writable by the user that runs errand",
  SQLITE_READONLY: "the data folder must be writable by the user that runs errand",
  SQLITE_FULL: "the disk is full",
  SQLITE_IOERR: "the disk refuses; look at the system's log",
  SQLITE_CORRUPT: "restore a backup: errand restore FILE --force",
  SQLITE_NOTADB: "errand.db is no database; restore a backup: errand restore FILE --force",
  SQLITE_BUSY: "another process holds the database; try again",
};

function fromSystem(error: unknown): Failure | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = String((error as { code?: unknown }).code ?? "");
  const known = Object.keys(SYSTEM).find((name) => code === name || code.startsWith(`${name}_`));
  return known === undefined ? undefined : { code: EXIT.failed, message: error.message, hint: SYSTEM[known] };
}
