export type Words = { type: "text" | "reasoning"; text: string };

/**
 * Adds words to the part before them, from the `from`th on; as one of their own where that is of another kind, or
 * has `most` characters already.
 */
export function addWords(
  parts: (Words | { type: string })[],
  { type, text }: Words,
  { from = 0, most = Number.POSITIVE_INFINITY } = {},
): void {
  const last = parts.length > from ? parts.at(-1) : undefined;
  if (last?.type === type && (last as Words).text.length < most) (last as Words).text += text;
  else parts.push({ type, text });
}

const PROBE = "a word";
const NOT_PLAIN = /["\\\p{Cc}]/u;
const MOST_TRIES = 20;

/**
 * Events of an answer are mostly one text but for the word in it. Such an event need not be parsed: where the one
 * before it had its word, this one has its own.
 */
export class SameButTheWord {
  #before = "";
  #after = "";
  #tries = 0;

  /** The word of an event that is like the one learnt; undefined: it has to be read. */
  wordOf(event: string): string | undefined {
    const from = this.#before.length;
    const to = event.length - this.#after.length;
    if (from === 0 || to <= from || !event.startsWith(this.#before) || !event.endsWith(this.#after)) return;
    const word = event.slice(from, to);
    if (NOT_PLAIN.test(word)) return;
    this.#tries = 0;
    return word;
  }

  /** Learns an event that says `word` and nothing else. `read` answers what an event says, if it says nothing else. */
  learn(event: string, word: string, read: (event: string) => string | undefined): void {
    // Some servers have something in each event that is its own.
    if (this.#tries === MOST_TRIES || word === PROBE || NOT_PLAIN.test(word)) return;
    this.#tries++;
    const at = event.lastIndexOf(`"${word}"`) + 1;
    if (at === 0) return;
    const before = event.slice(0, at);
    const after = event.slice(at + word.length);
    if (!says(PROBE, before + PROBE + after, read)) return;
    this.#before = before;
    this.#after = after;
  }
}

// What looks like the word may be a comma between two others; then nothing can be read any more.
function says(word: string, event: string, read: (event: string) => string | undefined): boolean {
  try {
    return read(event) === word;
  } catch {
    return false;
  }
}
