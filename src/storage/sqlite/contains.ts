import { type Column, type SQL, sql } from "drizzle-orm";

/** A filter on part of a text; the % and _ of the part mean themselves. */
export const contains = (column: Column, part: string): SQL =>
  sql`${column} LIKE ${`%${part.replace(/[\\%_]/g, "\\$&")}%`} ESCAPE '\\'`;
