import type { Json } from "./json.ts";

const LONGEST = 1024 * 1024;
// Brackets that begin no JSON, in prose and code, may be many; each try reads up to its end.
const MOST_TRIES = 50;
const MOST_READ = 4 * LONGEST;

/** The JSON value in a text: all of it, else what stands in a code fence, else the first object or list. */
export function jsonIn(text: string): Json | undefined {
  if (text.length > LONGEST) return undefined;
  const whole = parsed(text);
  if (whole !== undefined) return whole;
  for (const [, inner = ""] of text.matchAll(/```[\w-]*[ \t]*\r?\n?([\s\S]*?)```/g)) {
    const value = parsed(inner);
    if (value !== undefined) return value;
  }
  const opening = /[{[]/g;
  let read = 0;
  for (let tries = 0; tries < MOST_TRIES && read < MOST_READ; tries++) {
    const begin = opening.exec(text)?.index;
    if (begin === undefined) return undefined;
    const end = endOf(text, begin);
    read += (end ?? text.length) - begin;
    const value = end === undefined ? undefined : parsed(text.slice(begin, end));
    if (value !== undefined) return value;
  }
  return undefined;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Where the bracket that opens at `begin` is closed again, texts in quotes apart. */
function endOf(text: string, begin: number): number | undefined {
  let depth = 0;
  let quoted = false;
  for (let at = begin; at < text.length; at++) {
    const character = text[at];
    if (quoted) {
      if (character === "\\") at++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{" || character === "[") depth++;
    else if ((character === "}" || character === "]") && --depth === 0) return at + 1;
  }
  return undefined;
}
