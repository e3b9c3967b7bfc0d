const BLOCKS = new Set(
  "p div section article main header footer nav aside figure figcaption address details summary fieldset form dl dt dd body".split(
    " ",
  ),
);
const EMPHASIS: Record<string, string> = { b: "**", strong: "**", i: "_", em: "_", del: "~~", s: "~~" };
// Emphasis within emphasis is rare; without an end it would be put together again at each.
const MOST_SPANS = 8;
const DEEPEST_LIST = 8;

type Span = { at: number; wrap: (inner: string) => string };

/** Puts Markdown together from the elements and texts of a page as they come; without markup, plain text. */
export class MarkdownWriter {
  readonly #out: string[] = [];
  readonly #spans: Span[] = [];
  readonly #lists: { ordered: boolean; count: number }[] = [];
  /** Line breaks that stand before whatever comes next; none before the first. */
  #breaks = 0;
  #empty = true;
  #space = false;
  #quotes = 0;
  /** How deep the last line stood in quotes. */
  #quoted = 0;
  #pre = 0;
  #tables = 0;
  #cells = 0;
  #rows = 0;

  constructor(readonly marked: boolean) {}

  /** Answers whether the element's end matters. */
  open(name: string): boolean {
    const level = /^h([1-6])$/.exec(name)?.[1];
    if (level) {
      this.#break(2);
      this.#mark(`${"#".repeat(Number(level))} `);
    } else if (EMPHASIS[name]) this.#begin(around(EMPHASIS[name]));
    else if (name === "code" && this.#pre === 0) this.#begin(around("`"));
    else if (name === "br") this.#break(1, true);
    else if (name === "hr") this.#rule();
    else if (name === "ul" || name === "ol") {
      this.#break(this.#lists.length === 0 ? 2 : 1);
      this.#lists.push({ ordered: name === "ol", count: 0 });
    } else if (name === "li") this.#item();
    else if (name === "blockquote") {
      this.#break(2);
      this.#quotes++;
    } else if (name === "pre") {
      this.#break(2);
      this.#mark("```");
      if (this.marked) this.#break(1);
      this.#pre++;
    } else if (name === "table") {
      this.#break(2);
      if (this.#tables++ === 0) this.#rows = 0;
    } else if (name === "tr") this.#row();
    else if (name === "td" || name === "th") this.#cell();
    else if (BLOCKS.has(name)) this.#break(2);
    else return false;
    return name !== "br" && name !== "hr";
  }

  close(name: string): void {
    if (EMPHASIS[name] || (name === "code" && this.#pre === 0)) this.#finish();
    else if (name === "ul" || name === "ol") {
      this.#lists.pop();
      this.#break(this.#lists.length === 0 ? 2 : 1);
    } else if (name === "li") this.#break(1);
    else if (name === "blockquote") {
      this.#quotes = Math.max(0, this.#quotes - 1);
      this.#break(2);
    } else if (name === "pre") {
      this.#pre = Math.max(0, this.#pre - 1);
      if (this.marked) this.#break(1);
      this.#mark("```");
      this.#break(2);
    } else if (name === "tr") this.#endRow();
    else if (name === "table") {
      this.#endRow();
      this.#tables = Math.max(0, this.#tables - 1);
      this.#break(2);
    } else if (name !== "td" && name !== "th") this.#break(2);
  }

  text(text: string): void {
    if (this.#pre > 0) {
      const [first = "", ...rest] = text.split("\n");
      this.#put(first);
      for (const line of rest) {
        this.#breaks++;
        this.#put(line);
      }
      return;
    }
    const plain = text.replace(/[ \t\r\n\f]+/g, " ");
    if (plain.startsWith(" ")) this.#space = true;
    const trimmed = plain.trim();
    if (trimmed === "") return;
    this.#put(trimmed);
    this.#space = plain.endsWith(" ");
  }

  image(alt: string, url: string | undefined): void {
    const named = alt.replace(/\s+/g, " ").trim();
    if (this.marked && named !== "" && url !== undefined) this.#put(`![${named}](${url})`);
  }

  beginLink(): void {
    this.#begin(() => "");
  }

  endLink(url: string): void {
    const span = this.#spans.at(-1);
    if (span) span.wrap = (inner) => `[${inner.replace(/\s+/g, " ")}](${url})`;
    this.#finish();
  }

  end(): string {
    while (this.#spans.length > 0) {
      this.#spans.at(-1)!.wrap = (inner) => inner;
      this.#finish();
    }
    return this.#out
      .join("")
      .replace(/[ \t]+$/gm, "")
      .trim();
  }

  #begin(wrap: Span["wrap"]): void {
    this.#gap();
    this.#spans.push({ at: this.#out.length, wrap });
  }

  #finish(): void {
    const span = this.#spans.pop();
    if (!span || !this.marked || this.#spans.length >= MOST_SPANS) return;
    const inner = this.#out.splice(span.at).join("").trim();
    if (inner === "") return;
    // What holds paragraphs of its own is no emphasis.
    this.#out.push(inner.includes("\n\n") && !inner.includes("](") ? inner : span.wrap(inner));
  }

  /** At least `count` line breaks before what comes next; `more`: on top of those that are due. */
  #break(count: number, more = false): void {
    if (this.#tables > 0) this.#space = true;
    else this.#breaks = more ? Math.min(this.#breaks + count, 2) : Math.max(this.#breaks, count);
  }

  #gap(): void {
    if (this.#breaks > 0) {
      if (!this.#empty) {
        const now = this.#prefix(this.#quotes);
        const between = this.#prefix(Math.min(this.#quotes, this.#quoted));
        this.#out.push(`${`\n${between}`.repeat(this.#breaks - 1)}\n${now}`);
      } else this.#out.push(this.#prefix(this.#quotes));
      this.#breaks = 0;
      this.#quoted = this.#quotes;
    } else if (this.#space && !this.#empty && !this.#out.at(-1)?.endsWith(" ")) this.#out.push(" ");
    this.#space = false;
  }

  #prefix(quotes: number): string {
    return this.marked ? "> ".repeat(Math.min(quotes, DEEPEST_LIST)) : "";
  }

  #put(text: string): void {
    this.#gap();
    if (text === "") return;
    this.#out.push(text);
    this.#empty = false;
  }

  #mark(markup: string): void {
    if (this.marked) this.#put(markup);
  }

  #rule(): void {
    this.#break(2);
    this.#mark("---");
    this.#break(2);
  }

  #item(): void {
    this.#break(1);
    const list = this.#lists.at(-1);
    if (list) list.count++;
    const indent = "  ".repeat(Math.min(Math.max(this.#lists.length - 1, 0), DEEPEST_LIST));
    this.#put(`${indent}${list?.ordered ? `${list.count}.` : "-"} `);
  }

  #row(): void {
    if (this.#tables > 1) return;
    this.#endRow();
  }

  #cell(): void {
    if (this.#tables > 1) {
      this.#space = true;
      return;
    }
    if (this.#cells++ === 0) {
      this.#breaks = Math.max(this.#breaks, 1);
      this.#mark("| ");
    } else if (this.marked) this.#put(" | ");
    else this.#put("\t");
    this.#space = false;
  }

  #endRow(): void {
    if (this.#tables > 1 || this.#cells === 0) return;
    this.#space = false;
    this.#mark(" |");
    if (this.marked && this.#rows++ === 0) {
      this.#breaks = 1;
      this.#put(`|${" --- |".repeat(Math.min(this.#cells, 100))}`);
    }
    this.#cells = 0;
    this.#breaks = 1;
  }
}

const around = (mark: string) => (inner: string) => `${mark}${inner}${mark}`;
