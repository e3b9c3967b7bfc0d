import type { Call } from "./command.ts";
import type { Options } from "./options.ts";

/** A command's code; answers the exit code where it is not always 0. */
export type Action = ((call: Call) => Promise<void>) | ((call: Call) => Promise<number>);

/** A command, loaded when it is called: `errand version` does not wait for the server's code. */
export type Leaf = { words: string; help: string; takes: Options[]; load: () => Promise<Action> };
export type Group = { words: string; help: string; below: Entry[] };
export type Entry = Leaf | Group;

export const leaf = (words: string, help: string, takes: Options[], load: () => Promise<Action>): Leaf => ({
  words,
  help,
  takes,
  load,
});
export const group = (words: string, help: string, below: Entry[]): Group => ({ words, help, below });
