import { fit, padTo, printable, widthOf } from "./terminal.ts";

/** A column: its title, and what a row shows in it. */
export type Column<Row> = { title: string; value(row: Row): string | number | null | undefined };

const GAP = "  ";
const LEAST_COLUMN = 8;

/**
 * Rows under their titles, one line each. `width` is the terminal's: the widest columns give way until a
 * line fits. Without it, as into a file or a pipe, nothing is cut.
 */
export function table<Row>(columns: Column<Row>[], rows: Row[], width?: number): string {
  const cells = rows.map((row) => columns.map((column) => printable(String(column.value(row) ?? "-"))));
  const widths = columns.map((column, index) =>
    Math.max(widthOf(column.title), ...cells.map((line) => widthOf(line[index]!))),
  );
  if (width !== undefined) narrow(widths, width);
  const line = (texts: string[]) =>
    texts
      .map((text, index) => padTo(fit(text, widths[index]!), widths[index]!))
      .join(GAP)
      .trimEnd();
  return [line(columns.map((column) => column.title)), ...cells.map(line)]
    .map((text) => `${text}\n`)
    .join("");
}

/** One record, a line for each field. */
export function fields(pairs: [name: string, value: unknown][]): string {
  const width = Math.max(0, ...pairs.map(([name]) => widthOf(name)));
  return pairs.map(([name, value]) => `${padTo(name, width)}${GAP}${printable(spoken(value))}\n`).join("");
}

function spoken(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.map(spoken).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function narrow(widths: number[], width: number): void {
  const total = () => widths.reduce((sum, one) => sum + one, GAP.length * (widths.length - 1));
  while (total() > width) {
    const widest = widths.indexOf(Math.max(...widths));
    if (widths[widest]! <= LEAST_COLUMN) return;
    widths[widest]!--;
  }
}
