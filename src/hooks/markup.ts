/** A piece of a page that may stand there as it is. */
export class Markup {
  constructor(readonly text: string) {}
}

type Part = Markup | Part[] | string | number | undefined | false;

/** Puts a page together; every value is escaped unless it is Markup, what is missing or false is left out. */
export const html = (texts: TemplateStringsArray, ...parts: Part[]): Markup =>
  new Markup(texts.reduce((page, text, at) => page + written(parts[at - 1]) + text));

function written(part: Part): string {
  if (part === undefined || part === false) return "";
  if (part instanceof Markup) return part.text;
  return Array.isArray(part) ? part.map(written).join("") : escaped(String(part));
}

const ENTITIES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);
