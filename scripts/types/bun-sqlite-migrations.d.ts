import type { Database } from "bun:sqlite";

export type Migration = { version: number; up: string[]; down: string };
export function migrate(db: Database, migrations: Migration[], targetVersion?: number): void;
export function getDatabaseVersion(db: Database): number;
