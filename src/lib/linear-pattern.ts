/**
 * Regular expressions that other people wrote, run in time linear in the text.
 *
 * JavaScript's own engine backtracks: `(a+)+$` or `\s*\s*\s*x` on a long text holds the event loop for half
 * a second and then answers wrongly. Here an expression becomes a set of states, all of which move on together
 * by one character (Thompson's construction). What that cannot express, a look-around or a back-reference, is
 * refused. Single characters and classes are judged by the JavaScript engine, so they mean what they mean there.
 */

/** Thrown for what is no expression or cannot be run this way; the message says which. */
export class PatternError extends Error {}

const LONGEST_SOURCE = 500;
const MOST_STATES = 2_000;
// A text is given up when its length times the states passes this: some 0.1 s.
const MOST_STEPS = 4_000_000;

type State =
  | { kind: "one"; test: (character: string) => boolean; next: number }
  | { kind: "split"; next: number[] }
  | { kind: "edge"; holds: (text: string, at: number) => boolean; next: number }
  | { kind: "end" };

/** An expression with RegExp's face: the schema checker takes nothing else, and asks it only for `test`. */
export class LinearPattern extends RegExp {
  readonly #states: State[];
  readonly #start: number;

  constructor(source: string) {
    const flags = checked(source);
    super(source, flags);
    const compiled = new Compiler(source, flags).compile();
    this.#states = compiled.states;
    this.#start = compiled.start;
  }

  /** Whether any part of the text matches; false as well when the text is too long to say in time. */
  override test(text: string): boolean {
    if (text.length * this.#states.length > MOST_STEPS) return false;
    let active = new Set<number>();
    for (let at = 0; ; ) {
      if (this.#enter(this.#start, active, text, at)) return true;
      if (at >= text.length) return false;
      const character = String.fromCodePoint(text.codePointAt(at)!);
      const after = at + character.length;
      const next = new Set<number>();
      for (const index of active) {
        const state = this.#states[index]!;
        if (state.kind === "one" && state.test(character) && this.#enter(state.next, next, text, after))
          return true;
      }
      active = next;
      at = after;
    }
  }

  /** Adds a state and all that is reached from it without a character; true when the end is among them. */
  #enter(first: number, into: Set<number>, text: string, at: number): boolean {
    const todo = [first];
    for (let index = todo.pop(); index !== undefined; index = todo.pop()) {
      if (into.has(index)) continue;
      into.add(index);
      const state = this.#states[index]!;
      if (state.kind === "end") return true;
      if (state.kind === "split") todo.push(...state.next);
      else if (state.kind === "edge" && state.holds(text, at)) todo.push(state.next);
    }
    return false;
  }
}

// draft-07 asks for unicode mode; expressions from elsewhere often have escapes that it forbids, such as \-.
function checked(source: string): string {
  if (source.length > LONGEST_SOURCE) throw new PatternError(`at most ${LONGEST_SOURCE} characters`);
  for (const flags of ["u", ""]) {
    try {
      new RegExp(source, flags);
      return flags;
    } catch {}
  }
  throw new PatternError("a regular expression");
}

const ATOM =
  /\\(?:u\{[\da-f]+\}|u[\da-f]{4}|x[\da-f]{2}|c[a-z]|p\{[^}]*\}|[^1-9kbB])|\[(?:\\.|[^\]\\])*\]|[^\\()[*+?|^$]/iuy;
const REPEAT = /([*+?]|\{(\d+)(,(\d*))?\})\??/y;

const isWord = (character: string | undefined): boolean => character !== undefined && /\w/.test(character);
const onBoundary = (text: string, at: number): boolean => isWord(text[at - 1]) !== isWord(text[at]);
const EDGES: Record<string, (text: string, at: number) => boolean> = {
  "^": (_, at) => at === 0,
  $: (text, at) => at === text.length,
  "\\b": onBoundary,
  "\\B": (text, at) => !onBoundary(text, at),
};

/** A part of an expression: given the state to go on to, it answers the state to begin with. */
type Part = (next: number) => number;

class Compiler {
  #at = 0;
  #copies = 0;
  readonly #states: State[] = [];

  constructor(
    readonly source: string,
    readonly flags: string,
  ) {}

  compile(): { states: State[]; start: number } {
    const whole = this.#choice();
    if (this.#at < this.source.length) throw new PatternError("a regular expression without look-arounds");
    return { start: whole(this.#add({ kind: "end" })), states: this.#states };
  }

  #add(state: State): number {
    if (this.#states.length >= MOST_STATES) throw new PatternError("a regular expression with fewer repeats");
    return this.#states.push(state) - 1;
  }

  #choice(): Part {
    const options = [this.#sequence()];
    while (this.source[this.#at] === "|") {
      this.#at++;
      options.push(this.#sequence());
    }
    if (options.length === 1) return options[0]!;
    return (next) => this.#add({ kind: "split", next: options.map((option) => option(next)) });
  }

  #sequence(): Part {
    const parts: Part[] = [];
    while (this.#at < this.source.length && !"|)".includes(this.source[this.#at]!))
      parts.push(this.#repeated());
    return (next) => parts.reduceRight((following, part) => part(following), next);
  }

  #repeated(): Part {
    const part = this.#one();
    const repeat = this.#read(REPEAT);
    if (!repeat) return part;
    const [, sign, low, range, high] = repeat;
    if (sign === "*") return this.#times(part, 0, Number.POSITIVE_INFINITY);
    if (sign === "+") return this.#times(part, 1, Number.POSITIVE_INFINITY);
    if (sign === "?") return this.#times(part, 0, 1);
    const least = Number(low);
    return this.#times(
      part,
      least,
      range === undefined ? least : high ? Number(high) : Number.POSITIVE_INFINITY,
    );
  }

  #times(part: Part, least: number, most: number): Part {
    const bound = Number.isFinite(most) ? most : least;
    return (next) => {
      let start = next;
      if (most === Number.POSITIVE_INFINITY) {
        const loop: State & { kind: "split" } = { kind: "split", next: [next] };
        start = this.#add(loop);
        loop.next.push(part(start));
      }
      // A repeat of nothing adds no state, and nested it would go on for ever all the same.
      this.#copies += bound;
      if (this.#copies > MOST_STATES) throw new PatternError("a regular expression with fewer repeats");
      for (let count = bound; count > least; count--)
        start = this.#add({ kind: "split", next: [part(start), next] });
      for (let count = 0; count < least; count++) start = part(start);
      return start;
    };
  }

  #one(): Part {
    for (const [sign, holds] of Object.entries(EDGES)) {
      if (!this.source.startsWith(sign, this.#at)) continue;
      this.#at += sign.length;
      return (next) => this.#add({ kind: "edge", holds, next });
    }
    if (this.source[this.#at] === "(") return this.#group();
    const atom = this.#read(ATOM)?.[0];
    if (atom === undefined)
      throw new PatternError("a regular expression without back-references and look-arounds");
    const test = this.#tester(atom);
    return (next) => this.#add({ kind: "one", test, next });
  }

  #group(): Part {
    this.#at++;
    if (this.source[this.#at] === "?" && !this.#read(/\?(?::|<[^=!>][^>]*>)/y)) {
      throw new PatternError("a regular expression without look-arounds");
    }
    const inner = this.#choice();
    this.#at++; // the engine has found the expression whole, so this is its bracket
    return inner;
  }

  #tester(atom: string): (character: string) => boolean {
    if (!/[\\[.]/.test(atom)) return (character) => character === atom;
    const expression = new RegExp(`^${atom}$`, this.flags);
    return (character) => expression.test(character);
  }

  #read(expression: RegExp): RegExpExecArray | null {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.source);
    if (found) this.#at = expression.lastIndex;
    return found;
  }
}
