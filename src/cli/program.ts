import { Command, CommanderError } from "commander";
import { COMMIT, VERSION } from "../version.ts";
import type { Call, Flags, Program } from "./command.ts";
import { commands } from "./commands.ts";
import type { Entry } from "./entry.ts";
import { EXIT, usageError } from "./exit.ts";
import { everySetting, OUTSIDE_FLAGS } from "./options.ts";
import type { Output } from "./output.ts";

/** Runs the command that `argv` names; answers the exit code. Throws what `explain` turns into words. */
export async function runCommand(argv: string[], program: Program, output: Output): Promise<number> {
  let code: number = EXIT.ok;
  const root = new Command("errand")
    .description(
      "A self-hosted automation appliance: agents, durable workflows and webhooks in one executable.",
    )
    .version(`errand ${VERSION} (${COMMIT})`, "-V, --version", "Print the version")
    .helpOption("-h, --help", "Show this help")
    .helpCommand("help [command]", "Show the help of a command")
    // A command may have a --version of its own.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ writeOut: output.data, writeErr: output.words, outputError: () => {} });

  function add(parent: Command, entry: Entry): void {
    const made = parent.command(entry.words).description(entry.help);
    if ("below" in entry) {
      for (const one of entry.below) add(made, one);
      return;
    }
    for (const option of entry.takes.flat()) made.addOption(option);
    if (entry.takes.flat().length >= everySetting.length - 1) made.addHelpText("after", OUTSIDE_FLAGS);
    made.allowExcessArguments(false).action(async () => {
      const action = await entry.load();
      const call: Call = { program, output, root, args: made.args, flags: made.opts<Flags>() };
      code = (await action(call)) ?? EXIT.ok;
    });
  }

  // All of them are needed where help or a guess is, and to complete a line; making them takes its time.
  const named = commands.filter(({ words }) => words.split(" ")[0] === argv[0] && argv[0] !== "completion");
  for (const entry of named.length > 0 ? named : commands) add(root, entry);
  try {
    await root.parseAsync(argv, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return EXIT.ok;
    // A group without its command has printed its help already.
    if (error.code === "commander.help") return EXIT.usage;
    const [message = "", guess] = error.message.replace(/^error: /, "").split("\n");
    throw usageError(message, guess?.replace(/^\((.*)\)$/, "$1").replace(/^Did you/, "did you"));
  }
  return code;
}
