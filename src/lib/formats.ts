/** What `data-formats.ts` reads. */
export const FORMATS = ["json", "json_lines", "csv", "xml", "yaml", "query"] as const;
export type Format = (typeof FORMATS)[number];
