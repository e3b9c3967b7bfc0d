import { randomBytes } from "node:crypto";

/** Texts that are looked for, by what they are. */
export class Canaries {
  readonly #cores = new Map<string, string>();

  /** A secret of its own, with characters that a URL, a header or JSON might write otherwise. */
  make(name: string): string {
    const core = randomBytes(15).toString("hex");
    this.#cores.set(name, core);
    return `C+/~${core}=`;
  }

  /** A secret that the program has made. */
  note(name: string, secret: string): void {
    this.#cores.set(name, secret);
  }

  get count(): number {
    return this.#cores.size;
  }

  /** Which canaries a text or a file holds, in which form; those in `except` may be there. */
  in(haystack: Uint8Array | string, except: readonly string[] = []): string[] {
    const bytes = Buffer.from(haystack as Uint8Array);
    const found: string[] = [];
    for (const [name, core] of this.#cores) {
      if (except.includes(name)) continue;
      for (const [form, text] of formsOf(core)) {
        if (bytes.includes(text)) {
          found.push(`${name} as ${form}`);
          break;
        }
      }
    }
    return found;
  }
}

/** A text as it is, and as base64, hex and URL encoding make it, wherever it begins in what they encode. */
function formsOf(core: string): [string, string][] {
  const bytes = Buffer.from(core);
  const hex = bytes.toString("hex");
  const percent = hex.replace(/../g, "%$&");
  const forms: [string, string][] = [
    ["text", core],
    ["text backwards", [...core].reverse().join("")],
    ["hex", hex],
    ["hex", hex.toUpperCase()],
    ["URL form", percent],
    ["URL form", percent.toUpperCase()],
    ["URL form", encodeURIComponent(core)],
    ["UTF-16", Buffer.from(core, "utf16le").toString("latin1")],
  ];
  for (let before = 0; before < 3; before++) {
    // The first and the last characters mix with their neighbours; what lies between is always the same.
    const encoded = Buffer.concat([Buffer.alloc(before), bytes])
      .toString("base64")
      .replace(/=+$/, "");
    const sure = encoded.slice(before === 0 ? 0 : 4, encoded.length - (encoded.length % 4 === 0 ? 0 : 2));
    forms.push(["base64", sure], ["base64url", sure.replaceAll("+", "-").replaceAll("/", "_")]);
  }
  return forms;
}
