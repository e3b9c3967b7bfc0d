import { writeSync } from "node:fs";
import { type Column, fields, table } from "../lib/table.ts";
import { printableJson } from "../lib/terminal.ts";

/** Data goes to standard output, words to standard error: a pipe gets the data alone. */
export type Output = {
  data(text: string): void;
  words(text: string): void;
  /** Columns of the terminal that data goes to; undefined when it goes elsewhere. */
  width?: number;
  /** Whether a person reads the words. */
  attended: boolean;
};

export function processOutput(): Output {
  return {
    data: (text) => write(1, text),
    words: (text) => write(2, text),
    width: process.stdout.isTTY ? process.stdout.columns : undefined,
    attended: process.stderr.isTTY === true,
  };
}

// Synchronous: nothing is cut off by an exit, and a reader that went away (head, less) is no failure.
function write(descriptor: number, text: string): void {
  const buffer = Buffer.from(text);
  for (let from = 0; from < buffer.length; ) {
    try {
      from += writeSync(descriptor, buffer, from);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EPIPE") process.exit(0);
      if (code !== "EAGAIN") throw error;
    }
  }
}

export const putJson = (output: Output, value: unknown): void =>
  output.data(`${printableJson(JSON.stringify(value, null, 2))}\n`);

/** A list: as JSON where --json was given, else as a table, and in words when there is nothing. */
export function putList<Row>(
  { output, flags }: { output: Output; flags: Record<string, unknown> },
  rows: Row[],
  columns: Column<Row>[],
  empty: string,
): void {
  if (flags["json"]) putJson(output, rows);
  else if (rows.length === 0) output.words(`${empty}\n`);
  else output.data(table(columns, rows, output.width));
}

/** One record, as JSON or a line for each field. */
export function putRecord(
  { output, flags }: { output: Output; flags: Record<string, unknown> },
  record: Record<string, unknown>,
): void {
  if (flags["json"]) putJson(output, record);
  else output.data(fields(Object.entries(record)));
}
