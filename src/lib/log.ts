import { writeSync } from "node:fs";
import type { Clock } from "./clock.ts";
import { iso } from "./clock.ts";
import { redact } from "./redact.ts";

export type Level = "debug" | "info" | "warn" | "error";

export type Log = Record<Level, (message: string, fields?: Record<string, unknown>) => void>;

export type Logger = Log & {
  /** A line whose fields are known to hold no secret: skips redaction (the access log). */
  plain(level: Level, message: string, fields: Record<string, unknown>): void;
  /** Writes out what is buffered. */
  flush(): void;
};

export type LogOptions = {
  level: Level;
  /** `auto`: pretty on a terminal, else one JSON object a line. */
  format: "auto" | "json" | "pretty";
  clock: Clock;
  /** Where lines go; takes whole lines. Default: standard error. */
  write?: (text: string) => void;
  terminal?: boolean;
  env?: Record<string, string | undefined>;
};

const FLUSH_MS = 100;
const FLUSH_CHARACTERS = 32 * 1024;
const RANK: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/**
 * Logs to standard error. Lines are gathered for at most 100 ms or 32 KB, since a write per request costs
 * more than the request; an error goes out at once, with what came before it.
 */
export function createLog(options: LogOptions): Logger {
  const { clock, level: least } = options;
  const terminal = options.terminal ?? process.stderr.isTTY === true;
  const env = options.env ?? process.env;
  const write = options.write ?? writeStandardError;
  const pretty = options.format === "pretty" || (options.format === "auto" && terminal);
  const colour = terminal && !env["NO_COLOR"] && env["TERM"] !== "dumb";
  let lines: string[] = [];
  let size = 0;
  let cancelTimer: (() => void) | undefined;

  function flush(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    if (lines.length === 0) return;
    const text = lines.join("");
    lines = [];
    size = 0;
    write(text);
  }

  function plain(level: Level, message: string, fields: Record<string, unknown>): void {
    if (RANK[level] < RANK[least]) return;
    const line = pretty
      ? prettyLine(clock.now(), level, message, fields, colour)
      : jsonLine(clock.now(), level, message, fields);
    lines.push(line);
    size += line.length;
    if (level === "error" || size >= FLUSH_CHARACTERS) flush();
    else cancelTimer ??= clock.after(FLUSH_MS, flush);
  }

  const at = (level: Level) => (message: string, fields?: Record<string, unknown>) => {
    if (RANK[level] >= RANK[least])
      plain(level, redact(message) as string, fields ? (redact(fields) as typeof fields) : {});
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error"), plain, flush };
}

/** The log of the running program: also written out when the process ends. */
export function processLog(options: LogOptions): Logger {
  const log = createLog(options);
  process.on("exit", log.flush);
  return log;
}

// Terminals and log viewers act on C1 controls, and some readers end a line at U+2028.
const UNSAFE = /[\u007f-\u009f\u2028\u2029]/g;
const escaped = (text: string): string =>
  text.replace(UNSAFE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

function jsonLine(now: number, level: Level, message: string, fields: Record<string, unknown>): string {
  return `${escaped(JSON.stringify({ time: iso(now), level, message, ...fields }))}\n`;
}

const COLOURS: Record<Level, string> = {
  debug: "\x1b[90m",
  info: "\x1b[32m",
  warn: "\x1b[33m",
  error: "\x1b[31m",
};

function prettyLine(
  now: number,
  level: Level,
  message: string,
  fields: Record<string, unknown>,
  colour: boolean,
): string {
  const paint = (code: string, text: string) => (colour ? `${code}${text}\x1b[0m` : text);
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${paint("\x1b[90m", `${name}=`)}${prettyValue(value)}`);
  const time = paint("\x1b[90m", iso(now).slice(11, 23));
  const name = paint(COLOURS[level], level.toUpperCase().padEnd(5));
  return `${[time, name, printable(message), ...words].join(" ")}\n`;
}

function prettyValue(value: unknown): string {
  if (typeof value === "string" && /^[\w.:/@%+-]+$/.test(value)) return value;
  return escaped(JSON.stringify(value) ?? String(value));
}

const printable = (text: string): string => escaped(JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"'));

const MOST_RETRIES = 1_000;

// Synchronous, so that the last lines of a dying process arrive. A reader that stands still gets a
// bounded number of tries; after that its lines are lost rather than the service.
function writeStandardError(text: string): void {
  const bytes = Buffer.from(text);
  let from = 0;
  for (let tries = 0; from < bytes.length && tries < MOST_RETRIES; ) {
    try {
      from += writeSync(2, bytes, from);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return; // nobody reads: nothing to tell
      tries++;
    }
  }
}
