/**
 * Text as a terminal may get it. Names and URLs come from clients: a control character among them would
 * move the cursor, change the title or hide a line.
 */
export const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (char) =>
    char === "\n" || char === "\t" ? " " : "�",
  );

/** The same of a text of several lines. */
export const printableLines = (text: string): string => text.split("\n").map(printable).join("\n");

/** The same of JSON: what it may hold as it is and a terminal may not get is spelled out, to the same value. */
export const printableJson = (json: string): string =>
  json.replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** The columns that text takes on a terminal, wide characters being two. */
export const widthOf = (text: string): number => Bun.stringWidth(text);

/** Cuts text to `columns`, with an ellipsis where something is missing. */
export function fit(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let cut = "";
  let width = 0;
  for (const char of text) {
    width += widthOf(char);
    if (width > columns - 1) break;
    cut += char;
  }
  return `${cut}…`;
}

export const padTo = (text: string, columns: number): string =>
  text + " ".repeat(Math.max(0, columns - widthOf(text)));

/** 1536 as "1.5 KiB". */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1_024 && unit < units.length - 1) {
    value /= 1_024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
