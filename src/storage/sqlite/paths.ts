import { join } from "node:path";

/** The files of a data folder. */
export const databasePath = (folder: string) => join(folder, "errand.db");
export const backupsPath = (folder: string) => join(folder, "backups");
export const lockPath = (folder: string) => join(folder, "lock.db");
export const holderPath = (folder: string) => join(folder, "lock.json");
