import { decodeEntities } from "./html-entities.ts";
import { MarkdownWriter } from "./markdown-writer.ts";

export type Page = {
  title: string | null;
  description: string | null;
  content: string;
  links: { text: string; url: string }[];
};

export type ReadOptions = {
  format: "markdown" | "text";
  /** Where the page is from: relative links are told in full. */
  base?: string;
  /** Leave out navigation, headers, footers and forms; of a page with a `main` or one `article`, keep that alone. */
  mainOnly?: boolean;
};

export const LARGEST_HTML = 1024 * 1024;
const MOST_LINKS = 1_000;
const LONGEST_META = 1_000;
// The parser keeps what is open; a page of nothing but beginnings must not make each end dear.
const DEEPEST = 512;

const UNSEEN = new Set(
  "script style noscript template svg math iframe object select option canvas audio video".split(" "),
);
const ASIDE = new Set("nav header footer aside form button dialog".split(" "));

/**
 * Reads a page for people and models: its text with structure, its title and where it links to. One pass of a
 * streaming parser, so the time grows with the length alone, however the page is nested or broken.
 */
export function readHtml(html: string, { format, base, mainOnly = false }: ReadOptions): Page {
  const page: Page = { title: null, description: null, content: "", links: [] };
  const writer = new MarkdownWriter(format === "markdown");
  const only = mainOnly ? mainOf(html) : undefined;
  let address = base;
  let depth = 0;
  let unseen = 0;
  let inside = 0;
  let title: string | undefined;
  let link: { url: string; text: string } | undefined;
  let pending = "";

  const endOf = (element: HTMLRewriterTypes.Element, then: () => void) => {
    if (depth >= DEEPEST || VOID.has(element.tagName)) return false;
    depth++;
    element.onEndTag(() => {
      depth--;
      then();
    });
    return true;
  };
  const isSeen = () => unseen === 0 && (only === undefined || inside > 0);

  function closeLink() {
    if (!link) return;
    const { url, text } = link;
    link = undefined;
    writer.endLink(url);
    const named = text.replace(/\s+/g, " ").trim();
    if (page.links.length < MOST_LINKS) page.links.push({ text: named, url });
  }

  function open(element: HTMLRewriterTypes.Element) {
    const name = element.tagName;
    if (name === only && endOf(element, () => inside--)) inside++;
    if (name === "base" && base !== undefined)
      address = resolved(element.getAttribute("href"), base) ?? address;
    if (name === "meta" && /^(og:)?description$/i.test(metaName(element))) {
      page.description ??=
        decodeEntities(element.getAttribute("content") ?? "").slice(0, LONGEST_META) || null;
    }
    if (UNSEEN.has(name) || (mainOnly && ASIDE.has(name))) {
      if (endOf(element, () => unseen--)) unseen++;
      return;
    }
    if (name === "title" && unseen === 0 && page.title === null) {
      title = "";
      endOf(element, () => {
        page.title = title?.replace(/\s+/g, " ").trim().slice(0, LONGEST_META) || null;
        title = undefined;
      });
      return;
    }
    if (!isSeen()) return;
    if (name === "a") {
      closeLink();
      const url = resolved(element.getAttribute("href"), address);
      if (url !== undefined && endOf(element, closeLink)) {
        link = { url, text: "" };
        writer.beginLink();
      }
    } else if (name === "img") {
      const url = resolved(element.getAttribute("src"), address);
      writer.image(decodeEntities(element.getAttribute("alt") ?? ""), url);
    } else if (writer.open(name)) endOf(element, () => isSeen() && writer.close(name));
  }

  // A text node comes in pieces, and a piece may end within a character reference.
  function write(chunk: HTMLRewriterTypes.Text) {
    pending += chunk.text;
    if (!chunk.lastInTextNode) return;
    const text = decodeEntities(pending);
    pending = "";
    if (title !== undefined) title += text;
    else if (isSeen()) {
      if (link) link.text += text;
      writer.text(text);
    }
  }

  new HTMLRewriter().onDocument({ text: write }).on("*", { element: open }).transform(html);
  closeLink();
  page.content = writer.end();
  return page;
}

const VOID = new Set("area base br col embed hr img input link meta source track wbr".split(" "));

const metaName = (element: HTMLRewriterTypes.Element): string =>
  element.getAttribute("name") ?? element.getAttribute("property") ?? "";

const mainOf = (html: string): string | undefined =>
  /<main[\s>]/i.test(html) ? "main" : html.match(/<article[\s>]/gi)?.length === 1 ? "article" : undefined;

/** Addresses that lead somewhere else; a script or a place on the same page is none. */
function resolved(href: string | null, base: string | undefined): string | undefined {
  const given = decodeEntities(href?.trim() ?? "");
  if (given === "" || given.startsWith("#") || given.length > 2_048) return undefined;
  if (!URL.canParse(given, base))
    return base === undefined && !/^[a-z][\w+.-]*:/i.test(given) ? given : undefined;
  const url = new URL(given, base);
  return /^(https?|mailto|tel):$/.test(url.protocol) ? url.href : undefined;
}
