import type { Config } from "../../config.ts";
import type { Origin } from "../../lib/settings.ts";
import type { DataFolder, Holder, Inspection } from "../../storage/folder.ts";

export type Level = "ok" | "warn" | "fail";

/** What one look found. `hint` is what to do about it. */
export type Finding = { level: Level; message: string; hint?: string };

/** What every check may look at. `database` is undefined where there is none yet, or `unreadable` says why. */
export type Patient = {
  config: Config;
  origins: Record<string, Origin>;
  folder: DataFolder;
  database: Inspection | undefined;
  unreadable?: string;
  holder: Holder | undefined;
  now: number;
};

export type Check = { name: string; run(patient: Patient): Finding | Promise<Finding> };

export const ok = (message: string): Finding => ({ level: "ok", message });
export const warn = (message: string, hint?: string): Finding => ({ level: "warn", message, hint });
export const fail = (message: string, hint?: string): Finding => ({ level: "fail", message, hint });
