import { join } from "node:path";

/** The files of a data folder. */
export const databasePath = (folder: string) => join(folder, "errand.db");
export const backupsPath = (folder: string) => join(folder, "backups");
export const lockPath = (folder: string) => join(folder, "lock.db");
/** Touched by whoever puts jobs down for the server. */
export const knockPath = (folder: string) => join(folder, "knock");
export const holderPath = (folder: string) => join(folder, "lock.json");
