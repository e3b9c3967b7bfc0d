import { CsvError, parse as parseCsv } from "csv-parse/sync";
import { XMLParser, XMLValidator } from "fast-xml-parser";
import type { Format } from "./formats.ts";
import { decodeEntities } from "./html-entities.ts";
import type { Json } from "./json.ts";

export type DataOptions = { header?: boolean | string[]; delimiter?: string; convert_values?: boolean };

/** The text is not what it was said to be; the message says where, never what stood there. */
export class UnreadableData extends Error {}

const LONGEST = 4 * 1024 * 1024;
const MOST_ROWS = 50_000;
// As deep as a request's body may be.
const DEEPEST = 64;

/** Reads other people's data: nothing in it names a file, expands itself or becomes a prototype. */
export function parseText(text: string, format: Format, options: DataOptions = {}): Json {
  if (text.length > LONGEST) throw new UnreadableData(`The text is over ${LONGEST} characters.`);
  const plain = text.startsWith("\ufeff") ? text.slice(1) : text;
  const data = READERS[format](plain, options);
  if (depthOf(data) > DEEPEST) throw new UnreadableData(`The data is nested over ${DEEPEST} deep.`);
  return data;
}

const READERS: Record<Format, (text: string, options: DataOptions) => Json> = {
  json: (text) => readJson(text, "The text is not JSON."),
  json_lines: (text) =>
    text
      .split("\n")
      .flatMap((line, index) =>
        line.trim() === "" ? [] : [readJson(line, `Line ${index + 1} is not JSON.`)],
      ),
  csv: readCsv,
  xml: readXml,
  yaml: readYaml,
  query: readQuery,
};

function readJson(text: string, message: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw new UnreadableData(message);
  }
}

function readCsv(text: string, { header = true, delimiter, convert_values }: DataOptions): Json {
  let rows: string[][];
  try {
    rows = parseCsv(text, {
      delimiter: delimiter ?? likelyDelimiter(text),
      skip_empty_lines: true,
      relax_column_count: true,
      to: MOST_ROWS + 2,
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const { lines } = error as { lines?: number };
    throw new UnreadableData(
      `The text is not CSV${lines === undefined ? "" : `: line ${lines}`} (${error.code}).`,
    );
  }
  if (rows.length > MOST_ROWS + (header === true ? 1 : 0)) {
    throw new UnreadableData(`CSV has at most ${MOST_ROWS} rows.`);
  }
  const value = convert_values ? converted : (cell: string): Json => cell;
  if (header === false) return rows.map((row) => row.map(value));
  const names = header === true ? distinct(rows.shift() ?? []) : header;
  return rows.map((row) =>
    Object.fromEntries([
      ...names.map((name, column): [string, Json] => [
        name,
        column < row.length ? value(row[column]!) : null,
      ]),
      // Cells without a column's name are kept all the same.
      ...row
        .slice(names.length)
        .map((cell, index): [string, Json] => [`column_${names.length + index + 1}`, value(cell)]),
    ]),
  );
}

function likelyDelimiter(text: string): string {
  const line = /^[^\r\n]*/
    .exec(text)![0]
    .replace(/"[^"]*"/g, "")
    .slice(0, 10_000);
  const counted = [",", ";", "\t", "|"].map((mark) => ({ mark, count: line.split(mark).length }));
  return counted.reduce((best, one) => (one.count > best.count ? one : best)).mark;
}

/** Column names as they stand; what is missing or there twice gets a number. */
function distinct(names: string[]): string[] {
  const taken = new Set<string>();
  return names.map((given, index) => {
    const name = given.trim() || `column_${index + 1}`;
    let free = name;
    for (let n = 2; taken.has(free); n++) free = `${name}_${n}`;
    taken.add(free);
    return free;
  });
}

function readXml(text: string, { convert_values }: DataOptions): Json {
  // The one way to make much out of little, and to name files and addresses.
  if (/<!(?:ENTITY|DOCTYPE[^>]*\[)/i.test(text))
    throw new UnreadableData("XML with declarations of its own is not read.");
  const parser = new XMLParser({
    ignoreAttributes: false,
    attributeNamePrefix: "@",
    ignoreDeclaration: true,
    processEntities: false,
    parseTagValue: false,
    parseAttributeValue: false,
    maxNestedTags: DEEPEST,
    tagValueProcessor: (_, value) =>
      convert_values ? converted(decodeEntities(value)) : decodeEntities(value),
    attributeValueProcessor: (_, value) =>
      convert_values ? converted(decodeEntities(value)) : decodeEntities(value),
  });
  const found = XMLValidator.validate(text);
  if (found !== true)
    throw new UnreadableData(`The text is not XML: line ${found.err.line}, column ${found.err.col}.`);
  try {
    return parser.parse(text) as Json;
  } catch (error) {
    const deep = /nested/i.test((error as Error).message);
    throw new UnreadableData(
      deep ? `The data is nested over ${DEEPEST} deep.` : "The XML has names that are not read.",
    );
  }
}

function readYaml(text: string): Json {
  let value: unknown;
  try {
    value = Bun.YAML.parse(text);
  } catch (error) {
    throw new UnreadableData(
      error instanceof RangeError ? `The data is nested over ${DEEPEST} deep.` : "The text is not YAML.",
    );
  }
  if (depthOf(value as Json) > DEEPEST) throw new UnreadableData(`The data is nested over ${DEEPEST} deep.`);
  // An alias makes one value stand at many places: written out they may be far more than the text was.
  if (countOf(value as Json, MOST_ROWS * 20) > MOST_ROWS * 20)
    throw new UnreadableData("The YAML repeats itself too often.");
  return JSON.parse(JSON.stringify(value ?? null)) as Json;
}

function readQuery(text: string, { convert_values }: DataOptions): Json {
  const value = convert_values ? converted : (one: string): Json => one;
  const read = new Map<string, Json[]>();
  for (const [name, one] of new URLSearchParams(text.trim().replace(/^[?#]/, ""))) {
    const before = read.get(name);
    if (before) before.push(value(one));
    else read.set(name, [value(one)]);
  }
  return Object.fromEntries([...read].map(([name, all]) => [name, all.length === 1 ? all[0]! : all]));
}

// A number whose text would not come back the same (007, 20 digits) is no number but a name.
function converted(text: string): Json {
  if (text === "true" || text === "false") return text === "true";
  if (!/^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/.test(text)) return text;
  return Number(text) || 0; // -0 is no word of JSON
}

function depthOf(value: Json, depth = 0): number {
  if (typeof value !== "object" || value === null || depth > DEEPEST) return depth;
  let deepest = depth + 1;
  for (const item of Array.isArray(value) ? value : Object.values(value)) {
    const below = depthOf(item, depth + 1);
    if (below > deepest) deepest = below;
    if (deepest > DEEPEST) break;
  }
  return deepest;
}

function countOf(value: Json, most: number): number {
  let count = 1;
  if (typeof value !== "object" || value === null) return count;
  for (const item of Array.isArray(value) ? value : Object.values(value)) {
    count += countOf(item, most - count);
    if (count > most) break;
  }
  return count;
}
