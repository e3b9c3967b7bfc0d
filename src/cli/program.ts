import { Command, CommanderError, Option } from "commander";
import { settings } from "../config.ts";
import type { Setting } from "../lib/settings.ts";
import { COMMIT, VERSION } from "../version.ts";
import type { Call, Flags, Program } from "./command.ts";
import { completion, SHELLS } from "./completion.ts";
import { EXIT, usageError } from "./exit.ts";
import type { Output } from "./output.ts";

/** A command's code; answers the exit code where it is not always 0. */
type Action = ((call: Call) => Promise<void>) | ((call: Call) => Promise<number>);

/** Runs the command that `argv` names; answers the exit code. Throws what `explain` turns into words. */
export async function runCommand(argv: string[], program: Program, output: Output): Promise<number> {
  let code: number = EXIT.ok;
  const act = (load: () => Promise<Action>) => async (command: Command) => {
    const call: Call = { program, output, args: command.args, flags: command.opts<Flags>() };
    code = (await (await load())(call)) ?? EXIT.ok;
  };
  const root = commandTree(act, output);
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

type Act = (load: () => Promise<Action>) => (command: Command) => Promise<void>;

function commandTree(act: Act, output: Output): Command {
  const root = new Command("errand")
    .description(
      "A self-hosted automation appliance: agents, durable workflows and webhooks in one executable.",
    )
    .version(`errand ${VERSION} (${COMMIT})`, "-V, --version", "Print the version")
    .helpOption("-h, --help", "Show this help")
    .helpCommand("help [command]", "Show the help of a command")
    .showSuggestionAfterError(true)
    .exitOverride()
    .configureOutput({ writeOut: output.data, writeErr: output.words, outputError: () => {} });

  /** A command below `parent`: its words, its help, and where its code is. */
  const command = (parent: Command, words: string, help: string, load: () => Promise<Action>): Command => {
    const made = parent.command(words).description(help).allowExcessArguments(false);
    return made.action(() => act(load)(made));
  };
  const group = (parent: Command, name: string, help: string) => parent.command(name).description(help);
  const inFolder = (made: Command) => made.addOption(optionOf(settings.data)).addOption(configOption());
  const asJson = (made: Command) => made.option("--json", "Print JSON");
  const inProject = (made: Command) =>
    made
      .option("--workspace <workspace>", "Workspace, by id or name (default: the first)")
      .option("--project <project>", "Project, by id or name (default: the first)");

  const everyOption = (made: Command, without: string[] = []) => {
    for (const [name, one] of Object.entries(settings)) {
      if (one.flag !== undefined && !without.includes(name)) made.addOption(optionOf(one));
    }
    return made.addOption(configOption()).addHelpText("after", OUTSIDE_FLAGS);
  };
  everyOption(command(root, "serve", "Run the server", async () => (await import("./serve.ts")).serve));
  everyOption(
    command(
      root,
      "dev",
      "Run the server for development: limiter on, loopback targets allowed, readable logs",
      async () => (await import("./serve.ts")).dev,
    ),
    ["deployment"],
  );
  command(
    root,
    "demo",
    "Run the whole loop once in a temporary folder",
    async () => (await import("./demo.ts")).demo,
  );

  const keys = group(root, "keys", "API keys");
  const ofKeys = () => import("./keys.ts");
  asJson(
    inProject(
      inFolder(
        command(keys, "create", "Make a key; it is shown once", async () => (await ofKeys()).createKey),
      )
        .option("--name <name>", "What the key is for")
        .option("--expires <time>", "When it ends, ISO 8601 (default: never)"),
    ),
  );
  asJson(inProject(inFolder(command(keys, "list", "List keys", async () => (await ofKeys()).listKeys))));
  asJson(
    inFolder(
      command(keys, "show <id>", "Show a key, without its secret", async () => (await ofKeys()).showKey),
    ),
  );
  inFolder(command(keys, "revoke <id>", "End a key at once", async () => (await ofKeys()).revokeKey));
  asJson(
    inFolder(
      command(keys, "rotate <id>", "Make a successor of a key", async () => (await ofKeys()).rotateKey),
    ),
  ).option("--overlap-seconds <seconds>", "How long the old key still works (default: a day)");

  const webhooks = group(root, "webhooks", "Outgoing webhooks, and the tokens of incoming ones");
  const ofWebhooks = () => import("./webhooks.ts");
  const body = (made: Command) =>
    made
      .option("--url <url>", "Address that receives deliveries")
      .option("--events <kinds>", "Event kinds, separated by commas; * is all")
      .option("--name <name>", "Name")
      .option("--from <file>", "JSON file with these and further fields; - is standard input");
  const webhook = (words: string, help: string, load: () => Promise<Action>) =>
    inProject(inFolder(command(webhooks, words, help, load)));
  asJson(webhook("list", "List outgoing webhooks", async () => (await ofWebhooks()).listWebhooks));
  asJson(
    body(
      webhook(
        "create",
        "Make one; prints its signing secret",
        async () => (await ofWebhooks()).createWebhook,
      ),
    ),
  );
  asJson(webhook("show <id>", "Show one", async () => (await ofWebhooks()).showWebhook));
  asJson(body(webhook("update <id>", "Change one", async () => (await ofWebhooks()).updateWebhook)));
  webhook("delete <id>", "Delete one", async () => (await ofWebhooks()).deleteWebhook);
  asJson(
    webhook("test <id>", "Send it a sample now", async () => (await ofWebhooks()).testWebhook).option(
      "--event <kind>",
      "Event kind of the sample",
    ),
  );
  asJson(
    webhook("logs <id>", "List its deliveries, newest first", async () => (await ofWebhooks()).webhookLogs)
      .option("--limit <count>", "How many", "50")
      .option("--status <status>", "Only these"),
  );
  asJson(webhook("stats <id>", "Show its figures", async () => (await ofWebhooks()).webhookStats));
  asJson(
    webhook(
      "pause <id>",
      "Send it nothing until it is resumed",
      async () => (await ofWebhooks()).pauseWebhook,
    ),
  );
  asJson(webhook("resume <id>", "Send to it again", async () => (await ofWebhooks()).resumeWebhook));

  const tokens = group(webhooks, "tokens", "Tokens that open incoming webhooks");
  const ofTokens = () => import("./hook-tokens.ts");
  asJson(
    inFolder(
      command(
        tokens,
        "create <target>",
        "Make a token for agents/ID or workflows/ID; it is shown once",
        async () => (await ofTokens()).createHookToken,
      ),
    ),
  )
    .option("--name <name>", "What the token is for")
    .option("--expires <time>", "When it ends, ISO 8601 (default: never)");
  asJson(
    inFolder(
      command(
        tokens,
        "list <target>",
        "List the tokens of a target",
        async () => (await ofTokens()).listHookTokens,
      ),
    ),
  );
  inFolder(
    command(tokens, "revoke <id>", "End a token at once", async () => (await ofTokens()).revokeHookToken),
  );

  const workspaces = group(root, "workspaces", "Workspaces and their projects");
  const ofWorkspaces = () => import("./workspaces.ts");
  asJson(
    inFolder(
      command(workspaces, "list", "List workspaces", async () => (await ofWorkspaces()).listWorkspaces),
    ),
  );
  asJson(
    inFolder(
      command(
        workspaces,
        "create <name>",
        "Make a workspace with a project",
        async () => (await ofWorkspaces()).createWorkspace,
      ),
    ),
  ).option("--owner <email>", "Who is told of persistent failures");
  const projects = group(workspaces, "projects", "Projects of a workspace");
  const ofWorkspace = (made: Command) =>
    asJson(inFolder(made)).option("--workspace <workspace>", "Workspace, by id or name");
  ofWorkspace(command(projects, "list", "List projects", async () => (await ofWorkspaces()).listProjects));
  ofWorkspace(
    command(projects, "create <name>", "Make a project", async () => (await ofWorkspaces()).createProject),
  );

  const backup = group(root, "backup", "Backups; also while the server runs");
  const ofBackup = () => import("./backup.ts");
  asJson(
    inFolder(
      command(
        backup,
        "create [file]",
        "Write one checked file (default: into the data folder)",
        async () => (await ofBackup()).createBackup,
      ),
    ),
  ).option("--with-key", "Keep the key that opens its secrets in the file as well");
  asJson(
    inFolder(
      command(
        backup,
        "list",
        "List the backups in the data folder",
        async () => (await ofBackup()).listBackups,
      ),
    ),
  );
  asJson(
    command(backup, "verify <file>", "Read a backup through", async () => (await ofBackup()).verifyBackup),
  );
  asJson(
    inFolder(
      command(
        root,
        "restore <file>",
        "Bring a backup into a data folder; the server must not run",
        async () => (await ofBackup()).restore,
      ),
    ),
  ).option("--force", "Also into a folder with a database; what was there is kept beside it");

  const migrate = group(root, "migrate", "The database's schema");
  const ofMigrate = () => import("./migrate.ts");
  asJson(
    inFolder(
      command(
        migrate,
        "status",
        "List the steps and when they were applied",
        async () => (await ofMigrate()).migrateStatus,
      ),
    ),
  );
  asJson(
    inFolder(
      command(
        migrate,
        "up",
        "Apply what is pending, after a backup",
        async () => (await ofMigrate()).migrateUp,
      ),
    ),
  );

  asJson(
    everyOption(
      command(
        root,
        "doctor",
        "Look the installation over",
        async () => (await import("./doctor/index.ts")).doctor,
      ),
    ),
  ).option("--quiet", "Print only what is not in order");
  inFolder(
    command(
      root,
      "healthcheck",
      "Exit 0 when the server is healthy, else 1",
      async () => (await import("./healthcheck.ts")).healthcheck,
    ),
  )
    .addOption(optionOf(settings.host))
    .addOption(optionOf(settings.port));

  const config = group(root, "config", "The configuration in force");
  const ofConfig = () => import("./config.ts");
  asJson(
    everyOption(command(config, "show", "List every setting", async () => (await ofConfig()).showConfig)),
  ).option("--origin", "Tell where each value comes from");
  inFolder(
    command(
      config,
      "path",
      "Print the configuration file that is read",
      async () => (await ofConfig()).showConfigPath,
    ),
  );

  asJson(
    command(root, "version", "Print the version", async () => (await import("./version.ts")).showVersion),
  );
  command(
    root,
    "completion <shell>",
    `Print completions for ${SHELLS.join(", ")}`,
    async () =>
      async ({ args }) => {
        const shell = SHELLS.find((one) => one === args[0]);
        if (!shell) throw usageError(`no completions for ${args[0]}`, `one of ${SHELLS.join(", ")}`);
        completion(output, shell, root);
      },
  );
  return root;
}

const configOption = () =>
  new Option(
    "--config <file>",
    "Configuration file (ERRAND_CONFIG; default: errand.toml in the data folder)",
  );

const optionOf = (one: Setting<unknown>): Option => new Option(`--${one.flag} <value>`, describeSetting(one));

/** An option in a sentence, with its environment variable and its default. */
function describeSetting(one: Setting<unknown>): string {
  const usual = one.usually ?? plain(one.fallback({}));
  return `${one.help} (${one.env}${usual === "" ? "" : `; default: ${usual}`})`;
}

const plain = (value: unknown): string => (Array.isArray(value) ? value.join(",") : String(value ?? ""));

const OUTSIDE_FLAGS = `
By environment or file only: ${Object.values(settings)
  .filter((one) => one.flag === undefined)
  .map((one) => one.env)
  .join(", ")}.
Every option can stand in the configuration file under its long name, with _ for -.`;
