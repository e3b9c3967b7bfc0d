// Names of the characters from U+00A0 on, in order.
const LATIN_1 =
  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute " +
  "micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig " +
  "Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash " +
  "Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc " +
  "euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml " +
  "yacute thorn yuml";

const NAMED = new Map<string, string>([
  ...Object.entries({
    ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", ndash: "–", mdash: "—", hellip: "…", bull: "•" },
    ...{ lsquo: "‘", rsquo: "’", sbquo: "‚", ldquo: "“", rdquo: "”", bdquo: "„", lsaquo: "‹", rsaquo: "›" },
    ...{ euro: "€", trade: "™", dagger: "†", Dagger: "‡", permil: "‰", prime: "′", Prime: "″", minus: "−" },
    ...{ larr: "←", uarr: "↑", rarr: "→", darr: "↓", harr: "↔", le: "≤", ge: "≥", ne: "≠", infin: "∞" },
    ...{
      ensp: "\u2002",
      emsp: "\u2003",
      thinsp: "\u2009",
      zwnj: "\u200c",
      zwj: "\u200d",
      check: "✓",
      star: "☆",
    },
    ...{ OElig: "Œ", oelig: "œ", Scaron: "Š", scaron: "š", Yuml: "Ÿ", fnof: "ƒ", circ: "ˆ", tilde: "˜" },
  }),
  ...LATIN_1.split(" ").map((name, index): [string, string] => [name, String.fromCharCode(0xa0 + index)]),
]);

/** A text of HTML with its character references written out; unknown ones stay as they are. */
export const decodeEntities = (text: string): string =>
  text.includes("&") ? text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{2,8}));/g, decoded) : text;

function decoded(whole: string, decimal?: string, hex?: string, name?: string): string {
  if (name !== undefined) return NAMED.get(name) ?? whole;
  const code = decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal);
  // Half a pair is no character, and control characters have no business in a text.
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (code < 32 && code !== 9 && code !== 10))
    return "\ufffd";
  return String.fromCodePoint(code);
}
