import { Context, Liquid, type Template, toValue, toValueSync, Value } from "liquidjs";
import { LRUCache } from "lru-cache";
import type { Json } from "./json.ts";

/**
 * Templates as workflows and triggers use them: LiquidJS, strict.
 *
 * - A reference to nothing fails with its path named; `| default:` opts out.
 * - A text that is one `{{ }}` and nothing else keeps the type of its value.
 * - Only own properties are read, so neither a constructor nor a prototype is ever reached.
 * - What was rendered is data: it is never parsed as a template again.
 * - Only what is named in TAGS and FILTERS exists; times are UTC.
 */
export class TemplateError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TemplateError";
  }
}

export const LONGEST_TEMPLATE = 64 * 1024;
const LONGEST_RESULT = 256 * 1024;
// A value that is handed on as it is may be as long as a step's output.
const LONGEST_VALUE = 1024 * 1024;
// Of all texts that are rendered together: many small ones must not do what one large one may not.
const MOST_RENDERED = 4 * 1024 * 1024;
// Rendering holds the event loop: what does more than this is not a text but a program. Counted and not timed,
// so that a template that was good once is good on a busy machine as well.
const MOST_WORK = 100_000;
const MOST_MEMORY = 16 * 1024 * 1024;
// For what the count cannot see. Time in which the machine stood still is hardly any of it.
const MOST_RENDERING_MS = 3_000;
const LONGEST_MOMENT_MS = 25;
const MOST_CACHED_CHARACTERS = 4 * 1024 * 1024;

// No include, render, layout, block: they read other templates. No increment, decrement: they write to the scope.
const TAGS =
  "assign break capture case comment continue cycle echo for if liquid raw tablerow unless #".split(" ");
/**
 * The filters there are, with what the ones of our own do. Left out of Liquid's: *_exp, which would run their
 * argument, a text of data, as an expression; raw, which would print an object as [object Object]; sample,
 * which would give a repeated step another input.
 */
export const FILTERS: Record<string, string[]> = {
  "Any value": ["default", "json", "parse_json", "size", "first", "last"],
  Texts: [
    ...["append", "prepend", "upcase", "downcase", "capitalize", "strip", "lstrip", "rstrip", "squish"],
    ...[
      "replace",
      "replace_first",
      "replace_last",
      "remove",
      "remove_first",
      "remove_last",
      "slice",
      "split",
    ],
    ...["truncate", "truncatewords", "number_of_words", "slugify", "newline_to_br", "strip_newlines"],
    ...["normalize_whitespace", "strip_html", "escape", "escape_once", "xml_escape"],
  ],
  "Encoding and hashing": [
    ...["base64_encode", "base64_decode", "base64", "url_encode", "url_decode", "uri_escape", "cgi_escape"],
    ...["sha256", "hmac_sha256"],
  ],
  Numbers: [
    ...[
      "plus",
      "minus",
      "times",
      "divided_by",
      "modulo",
      "abs",
      "ceil",
      "floor",
      "round",
      "at_least",
      "at_most",
    ],
    ...["number", "to_integer"],
  ],
  Time: ["date", "add_seconds"],
  Lists: [
    ...["map", "where", "reject", "find", "find_index", "has", "group_by", "sort", "sort_natural", "reverse"],
    ...["uniq", "compact", "concat", "join", "slice", "sum", "push", "pop", "shift", "unshift"],
    "array_to_sentence_string",
  ],
  Objects: ["keys", "values"],
};
const FILTER_NAMES = new Set([...Object.values(FILTERS).flat(), "jsonify"]);

const liquid = new Liquid({
  strictVariables: true,
  strictFilters: true,
  ownPropertyOnly: true,
  lenientIf: true,
  // No file is ever read: the tags that would are taken out below, and this would find none.
  templates: {},
  relativeReference: false,
  timezoneOffset: 0,
  locale: "en-US",
  parseLimit: LONGEST_TEMPLATE * 2,
  outputEscape(this: FilterCall, value: unknown) {
    const text = asText(value);
    this.context.memoryLimit.use(text.length);
    return text;
  },
});
liquid.registerFilter("base64", (value: unknown) => Buffer.from(asText(value)).toString("base64"));
liquid.registerFilter("parse_json", (value: unknown) => {
  try {
    return JSON.parse(asText(value));
  } catch {
    throw new TemplateError("parse_json: the text is not JSON");
  }
});
liquid.registerFilter("number", (value: unknown) => {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof number === "number" && Number.isFinite(number)) return number;
  throw new TemplateError("number: the value is no number");
});
liquid.registerFilter("keys", (value: unknown) => Object.keys(asObject(value, "keys")));
liquid.registerFilter("values", (value: unknown) => Object.values(asObject(value, "values")));
liquid.registerFilter("add_seconds", (value: unknown, seconds: unknown) => {
  const at =
    new Date(typeof value === "number" ? value * 1_000 : asText(value)).getTime() + Number(seconds) * 1_000;
  if (Math.abs(at) <= LATEST_MS) return new Date(at).toISOString();
  throw new TemplateError("add_seconds: the value is no time, or the argument no number");
});
for (const tag of Object.keys(liquid.tags)) if (!TAGS.includes(tag)) delete liquid.tags[tag];
for (const filter of Object.keys(liquid.filters))
  if (!FILTER_NAMES.has(filter)) liquid.unregisterFilter(filter);

type FilterCall = { context: Context };
type Filter = (this: FilterCall, ...values: unknown[]) => unknown;

// Not all of Liquid's own count what they are given: hashing, encoding and reading a long text do not.
for (const name of FILTER_NAMES) {
  const filter = liquid.filters[name] as Filter;
  liquid.registerFilter(name, function (this: FilterCall, ...values: unknown[]) {
    this.context.memoryLimit.use(values.reduce((sum: number, value) => sum + lengthOf(value), 1));
    return filter.apply(this, values);
  });
}

const lengthOf = (value: unknown): number =>
  typeof value === "string" || Array.isArray(value) ? value.length : 0;

const LATEST_MS = 8.64e15;

function asObject(value: unknown, filter: string): object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new TemplateError(`${filter}: the value is no object`);
}

/** Liquid reads on through null and answers null; to a workflow that is a hollow text nobody asked for. */
class StrictContext extends Context {
  override readProperty(holder: never, key: never): unknown {
    return holder === null ? undefined : super.readProperty(holder, key);
  }
}

function asText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

type Parsed =
  | { kind: "text"; text: string }
  /** Texts and plain paths in turn: `["Hello ", ["name"], "!"]`. */
  | { kind: "paths"; pieces: (string | string[])[]; single: boolean }
  | { kind: "value"; value: Value }
  | { kind: "template"; template: Template[] };

// A text's parse depends on the text alone.
const cache = new LRUCache<string, Parsed>({
  maxSize: MOST_CACHED_CHARACTERS,
  sizeCalculation: (_, text) => text.length + 1,
});

// One output and nothing around it. An inner "}}" could only stand inside a quoted string.
const ONE_OUTPUT = /^\s*\{\{-?((?:"[^"]*"|'[^']*'|[^"'{}])*?)-?\}\}\s*$/;

function parse(text: string): Parsed {
  if (!text.includes("{{") && !text.includes("{%")) return { kind: "text", text };
  const known = cache.get(text);
  if (known) return known;
  if (text.length > LONGEST_TEMPLATE)
    throw new TemplateError(`a template is over ${LONGEST_TEMPLATE} characters`);
  let parsed: Parsed;
  try {
    liquid.parse(text);
    const pieces = plainPaths(text);
    const single = ONE_OUTPUT.exec(text)?.[1]?.trim();
    // `new Value` reads what it can and stops; the parser above knows whether all of it was meant.
    if (pieces) parsed = { kind: "paths", pieces, single: single !== undefined };
    else if (single) parsed = { kind: "value", value: new Value(single, liquid) };
    else parsed = { kind: "template", template: counted(liquid.parse(text)) };
  } catch (error) {
    throw new TemplateError(wording(error));
  }
  cache.set(text, parsed);
  return parsed;
}

// Nine templates of ten are paths in a text. They are read here, ten times as fast and to the same result;
// names that Liquid gives a meaning of its own are left to it, and so is whatever goes wrong.
const OUTPUT = /\{\{\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\}\}/g;
const LIQUIDS_OWN = new Set(["nil", "null", "true", "false", "empty", "blank", "size", "first", "last"]);

function plainPaths(text: string): (string | string[])[] | undefined {
  const pieces: (string | string[])[] = [];
  let from = 0;
  for (const match of text.matchAll(OUTPUT)) {
    const path = match[1]!.split(".");
    if (path.some((name) => LIQUIDS_OWN.has(name))) return undefined;
    pieces.push(text.slice(from, match.index), path);
    from = match.index + match[0].length;
  }
  pieces.push(text.slice(from));
  const rest = pieces.filter((piece) => typeof piece === "string");
  return rest.some((piece) => piece.includes("{{") || piece.includes("{%")) ? undefined : pieces;
}

/** The value of a path, or MISSING where Liquid must say what is wrong. */
function read(path: string[], scope: unknown): unknown {
  let at = scope;
  for (const name of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return MISSING;
    at = (at as Record<string, unknown>)[name];
  }
  return typeof at === "function" || at === undefined ? MISSING : at;
}
const MISSING = Symbol("missing");

/** Undefined: something is missing. */
function renderPaths(
  pieces: (string | string[])[],
  single: boolean,
  scope: unknown,
  budget: Budget,
): Json | undefined {
  if (single) {
    const value = read(pieces[1] as string[], scope);
    return value === MISSING ? undefined : asJson(value, budget);
  }
  let result = "";
  for (const piece of pieces) {
    const value = typeof piece === "string" ? piece : read(piece, scope);
    if (value === MISSING) return undefined;
    result += asText(value);
    if (result.length > LONGEST_RESULT)
      throw new TemplateError(`a rendered text is over ${LONGEST_RESULT} characters`);
  }
  budget.write(result.length);
  return result;
}

/** Renders every text in `value`, keys apart; the rest is copied. Throws TemplateError. */
export function renderDeep(value: Json, scope: Record<string, unknown>): Json {
  return renderWithin(value, scope, new Budget());
}

/**
 * What is left for the texts that are still to come. Liquid asks it as its `renderLimit` before each piece and
 * as its `memoryLimit` for what it puts together.
 */
class Budget {
  #characters = MOST_RENDERED;
  #work = MOST_WORK;
  #memory = MOST_MEMORY;
  #ms = MOST_RENDERING_MS;
  #seen = Number.POSITIVE_INFINITY;

  write(characters: number): void {
    this.#characters -= characters;
    if (this.#characters < 0)
      throw new TemplateError(`what is rendered together is over ${MOST_RENDERED} characters`);
  }

  work(amount: number): void {
    this.#work -= amount;
    if (this.#work < 0) throw new TemplateError("what is rendered together takes too many operations");
  }

  use(amount: number): void {
    if (!(amount > 0)) return;
    this.#memory -= amount;
    if (this.#memory < 0) throw new TemplateError("what is rendered together takes too much memory");
  }

  check(now: number): void {
    this.#ms -= Math.min(Math.max(0, now - this.#seen), LONGEST_MOMENT_MS);
    this.#seen = now;
    if (this.#ms < 0)
      throw new TemplateError(`what is rendered together takes over ${MOST_RENDERING_MS / 1_000} s`);
  }
}

/** The same pieces, each of which counts before it is rendered: a long one for more than a short one. */
function counted(templates: Template[]): Template[] {
  for (const piece of templates) {
    const { length } = piece.token.getText();
    const isLiteral = "str" in piece;
    const render = piece.render.bind(piece);
    piece.render = (context, emitter) => {
      const budget = context.renderLimit as unknown as Budget;
      budget.work(isLiteral ? 1 : 1 + Math.floor(length / 100));
      if (isLiteral) budget.use(length);
      return render(context, emitter);
    };
    if (piece.children) counted(toValueSync(piece.children(false, true)));
  }
  return templates;
}

function renderWithin(value: Json, scope: Record<string, unknown>, budget: Budget): Json {
  if (typeof value === "string") return renderText(value, scope, budget);
  if (Array.isArray(value)) return value.map((item) => renderWithin(item, scope, budget));
  if (typeof value === "object" && value !== null) {
    const rendered: Record<string, Json> = {};
    for (const key of Object.keys(value))
      define(rendered, key, renderWithin(value[key] as Json, scope, budget));
    return rendered;
  }
  return value;
}

// Assigning `__proto__` would set the prototype.
function define(target: Record<string, Json>, key: string, value: Json): void {
  if (key === "__proto__")
    Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
  else target[key] = value;
}

function renderText(text: string, scope: Record<string, unknown>, budget: Budget): Json {
  const parsed = parse(text);
  if (parsed.kind === "text") return parsed.text;
  if (parsed.kind === "paths") {
    const rendered = renderPaths(parsed.pieces, parsed.single, scope, budget);
    if (rendered !== undefined) return rendered;
  }
  try {
    const limits = { renderLimit: budget as never, memoryLimit: budget as never };
    const context = new StrictContext(scope, liquid.options, { sync: true }, { liquid, ...limits });
    budget.check(performance.now());
    if (parsed.kind === "value") budget.work(1 + Math.floor(text.length / 100));
    if (parsed.kind === "value") return asJson(toValue(toValueSync(parsed.value.value(context))), budget);
    const template = parsed.kind === "template" ? parsed.template : counted(liquid.parse(text));
    const result = liquid.renderSync(template, context) as string;
    if (result.length > LONGEST_RESULT)
      throw new TemplateError(`a rendered text is over ${LONGEST_RESULT} characters`);
    budget.write(result.length);
    return result;
  } catch (error) {
    if (error instanceof TemplateError) throw error;
    // What a filter of ours says, Liquid wraps.
    const { originalError } = error as { originalError?: unknown };
    throw originalError instanceof TemplateError ? originalError : new TemplateError(wording(error));
  }
}

// Filters may answer what JSON has no word for.
function asJson(value: unknown, budget: Budget): Json {
  if (value === undefined || value === null) return null;
  if (typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value || 0 : null; // -0 is one of those words
  const text = typeof value === "object" ? (JSON.stringify(value) ?? "null") : String(value);
  if (text.length > LONGEST_VALUE)
    throw new TemplateError(`a rendered value is over ${LONGEST_VALUE} characters`);
  budget.write(text.length);
  return typeof value === "object" ? (JSON.parse(text) as Json) : text;
}

/** Paths of what the texts in `value` refer to from outside, such as `["greet", "text"]`. Throws TemplateError. */
export function references(value: Json): string[][] {
  if (typeof value === "string") {
    if (parse(value).kind === "text") return [];
    return liquid
      .globalVariableSegmentsSync(value)
      .map((segments) => segments.filter((segment) => !Array.isArray(segment)).map(String));
  }
  if (Array.isArray(value)) return value.flatMap(references);
  if (typeof value === "object" && value !== null) return Object.values(value).flatMap(references);
  return [];
}

/** True where rendering could change the text. */
export const isTemplate = (text: string): boolean => parse(text).kind !== "text";

// "undefined variable: greet.txt, line:1, col:4" and a source listing: the first half is for people.
function wording(error: unknown): string {
  const text = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
  const plain = text.replace(/, line:\d+, col:\d+$/, "");
  const missing = /^undefined variable: (.+)$/.exec(plain)?.[1];
  return missing ? `{{ ${missing} }} refers to nothing` : plain;
}
