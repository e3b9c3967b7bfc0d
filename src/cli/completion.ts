import type { Command } from "commander";
import type { Call } from "./command.ts";
import { usageError } from "./exit.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** A command by its words, and what may follow it: made from the command tree, so that it is never behind. */
type Node = { words: string[]; help: string; follow: { word: string; help: string }[] };

function nodes(command: Command, words: string[] = []): Node[] {
  const visible = command
    .createHelp()
    .visibleCommands(command)
    .filter((sub) => sub.name() !== "help");
  const options = command
    .createHelp()
    .visibleOptions(command)
    .flatMap((option) => {
      const { long, description } = option;
      return long ? [{ word: long, help: description }] : [];
    });
  const commands = visible.map((sub) => ({ word: sub.name(), help: sub.description() }));
  const own = { words, help: command.description(), follow: [...commands, ...options] };
  return [own, ...visible.flatMap((sub) => nodes(sub, [...words, sub.name()]))];
}

/** Prints a completion script to be sourced by the shell. */
export async function printCompletion({ output, root, args }: Call): Promise<void> {
  const shell = SHELLS.find((one) => one === args[0]);
  if (!shell) throw usageError(`no completions for ${args[0]}`, `one of ${SHELLS.join(", ")}`);
  output.data({ bash, zsh, fish }[shell](nodes(root)));
}

const key = ({ words }: Node) => words.join(" ");
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** The longest known command at the start of the line decides what is offered. */
function bash(all: Node[]): string {
  const cases = all.map(
    (node) => `    ${quoted(key(node))}) words=${quoted(node.follow.map((one) => one.word).join(" "))} ;;`,
  );
  return `# errand completion bash: source it from ~/.bashrc
_errand() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" words="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) continue ;; esac
    path="\${path:+$path }$word"
  done
  while :; do
    case "$path" in
${cases.map((line) => `  ${line}`).join("\n")}
    esac
    [ -n "$words" ] && break
    case "$path" in *" "*) path="\${path% *}" ;; *) path="" ;; esac
  done
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _errand errand
`;
}

function zsh(all: Node[]): string {
  return `#compdef errand
# errand completion zsh: save it as _errand in a folder of $fpath
autoload -U +X bashcompinit && bashcompinit
${bash(all).split("\n").slice(1).join("\n")}`;
}

function fish(all: Node[]): string {
  const lines = all.flatMap(({ words, follow }) => {
    const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`);
    const deeper = follow.filter((one) => !one.word.startsWith("-")).map((one) => one.word);
    const none = deeper.length > 0 ? [`not __fish_seen_subcommand_from ${deeper.join(" ")}`] : [];
    const when = quoted([...seen, ...none].join("; and ") || "true");
    return follow.map(({ word, help }) => {
      const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-f -a ${word}`;
      return `complete -c errand -n ${when} ${what} -d ${quoted(help)}`;
    });
  });
  return `# errand completion fish: save it as ~/.config/fish/completions/errand.fish\n${lines.join("\n")}\n`;
}
