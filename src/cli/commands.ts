import { agentCommands } from "./agent-commands.ts";
import { SHELLS } from "./completion.ts";
import { conversationCommands } from "./conversation-commands.ts";
import { type Entry, group, leaf } from "./entry.ts";
import {
  asJson,
  between,
  everySetting,
  everySettingBut,
  expires,
  folder,
  forSettings,
  option,
  project,
  webhookBody,
  workspace,
} from "./options.ts";
import { triggerCommands } from "./trigger-commands.ts";
import { workflowCommands } from "./workflow-commands.ts";

const ofServe = () => import("./serve.ts");
const ofKeys = () => import("./keys.ts");
const ofWebhooks = () => import("./webhooks.ts");
const ofTrials = () => import("./webhook-trials.ts");
const ofEvents = () => import("./events.ts");
const ofConnections = () => import("./connections.ts");
const ofTokens = () => import("./hook-tokens.ts");
const ofWorkspaces = () => import("./workspaces.ts");
const ofBackup = () => import("./backup.ts");
const ofMigrate = () => import("./migrate.ts");
const ofConfig = () => import("./config.ts");

const record = [folder, project, asJson];

const sample = [
  ...record,
  option("--event <kind>", "Event kind of the sample"),
  option("--from <file>", "JSON file with its data; - is standard input"),
];

const keys = group("keys", "API keys", [
  leaf(
    "create",
    "Make a key; it is shown once",
    [...record, option("--name <name>", "What the key is for"), expires],
    async () => (await ofKeys()).createKey,
  ),
  leaf("list", "List keys", record, async () => (await ofKeys()).listKeys),
  leaf("show <id>", "Show a key, without its secret", [folder, asJson], async () => (await ofKeys()).showKey),
  leaf("revoke <id>", "End a key at once", [folder], async () => (await ofKeys()).revokeKey),
  leaf(
    "rotate <id>",
    "Make a successor of a key",
    [
      folder,
      asJson,
      option("--overlap-seconds <seconds>", "How long the old key still works (default: a day)"),
    ],
    async () => (await ofKeys()).rotateKey,
  ),
]);

const tokens = group("tokens", "Tokens that open incoming webhooks", [
  leaf(
    "create <target>",
    "Make a token for agents/ID or workflows/ID; it is shown once",
    [folder, asJson, option("--name <name>", "What the token is for"), expires],
    async () => (await ofTokens()).createHookToken,
  ),
  leaf(
    "list <target>",
    "List the tokens of a target",
    [folder, asJson],
    async () => (await ofTokens()).listHookTokens,
  ),
  leaf("revoke <id>", "End a token at once", [folder], async () => (await ofTokens()).revokeHookToken),
]);

const webhooks = group("webhooks", "Outgoing webhooks, and the tokens of incoming ones", [
  leaf("list", "List outgoing webhooks", record, async () => (await ofWebhooks()).listWebhooks),
  leaf(
    "create",
    "Make one; prints its signing secret",
    [...record, webhookBody],
    async () => (await ofWebhooks()).createWebhook,
  ),
  leaf("show <id>", "Show one", record, async () => (await ofWebhooks()).showWebhook),
  leaf("update <id>", "Change one", [...record, webhookBody], async () => (await ofWebhooks()).updateWebhook),
  leaf("delete <id>", "Delete one", [folder, project], async () => (await ofWebhooks()).deleteWebhook),
  leaf("test <id>", "Send it a sample now", sample, async () => (await ofTrials()).testWebhook),
  leaf(
    "dry-run <id>",
    "Tell what would become of an event, and send nothing",
    sample,
    async () => (await ofTrials()).dryRunWebhook,
  ),
  leaf(
    "listen",
    "Receive deliveries in this terminal, print and verify them",
    [
      option("--port <port>", "Port to listen on; 0 takes a free one (default: 9000)"),
      option("--secret <secret>", "Signing secret to verify with"),
      option(
        "--fail <status or count>",
        "Answer every delivery with this status, or the first so many with 500",
      ),
      option("--slow <seconds>", "Wait before each answer"),
      option("--count <count>", "End after so many deliveries"),
      asJson,
    ],
    async () => (await import("./webhook-listen.ts")).listenForWebhooks,
  ),
  leaf(
    "redeliver <id> <delivery>",
    "Send the event of a delivery once more",
    record,
    async () => (await ofTrials()).redeliver,
  ),
  leaf(
    "replay <id>",
    "Send again what failed since a time; with --status what became of it otherwise",
    [
      ...record,
      between,
      option("--events <kinds>", "Only these event kinds, separated by commas"),
      option("--status <status>", "failed, success, cancelled, filtered or any (default: failed)"),
    ],
    async () => (await ofTrials()).replay,
  ),
  leaf(
    "logs <id>",
    "List its deliveries, newest first",
    [
      ...record,
      option("--limit <count>", "How many (default: 50)"),
      option("--status <status>", "Only these"),
      option("--event <kind>", "Only this event kind"),
      between,
    ],
    async () => (await ofWebhooks()).webhookLogs,
  ),
  leaf(
    "delivery <id> <delivery>",
    "Show one delivery with its bytes and every attempt",
    record,
    async () => (await ofWebhooks()).showDelivery,
  ),
  leaf("secret <id>", "Show its signing secret", record, async () => (await ofWebhooks()).showSecret),
  leaf(
    "rotate-secret <id>",
    "Issue a new signing secret; the old one signs beside it for a while",
    [
      ...record,
      option("--overlap-seconds <seconds>", "How long the old secret still signs (default: a day)"),
    ],
    async () => (await ofWebhooks()).rotateSecret,
  ),
  leaf(
    "stats <id>",
    "Show its figures, by event and by hour",
    [...record, option("--hours <count>", "Hours to look back, 168 at most (default: 24)")],
    async () => (await ofWebhooks()).webhookStats,
  ),
  leaf(
    "pause <id>",
    "Send it nothing until it is resumed",
    record,
    async () => (await ofWebhooks()).pauseWebhook,
  ),
  leaf("resume <id>", "Send to it again", record, async () => (await ofWebhooks()).resumeWebhook),
  tokens,
]);

const events = group("events", "What happened, and what became of it at every webhook", [
  leaf(
    "list",
    "List events, newest first",
    [
      ...record,
      option("--limit <count>", "How many (default: 50)"),
      option("--event <kind>", "Only this event kind"),
      option("--subject <id>", "Only of this execution or conversation"),
      between,
    ],
    async () => (await ofEvents()).listEvents,
  ),
  leaf(
    "show <id>",
    "Show one, and why each webhook got it or not",
    record,
    async () => (await ofEvents()).showEvent,
  ),
]);

const connectionFields = option(
  "--from <file>",
  'JSON file with what it holds, such as {"token": "..."}; - is standard input',
);
const connections = group("connections", "Credentials that nodes use by name; secrets are never shown", [
  leaf("list", "List connections", record, async () => (await ofConnections()).listConnections),
  leaf(
    "create",
    "Store one",
    [
      ...record,
      option("--name <name>", "What nodes call it"),
      option("--type <type>", "bearer, basic, header, smtp or model"),
      connectionFields,
    ],
    async () => (await ofConnections()).createConnection,
  ),
  leaf(
    "show <connection>",
    "Show one, without its secret",
    record,
    async () => (await ofConnections()).showConnection,
  ),
  leaf(
    "update <connection>",
    "Change one; the secret must come along where it is to be sent elsewhere",
    [...record, option("--name <name>", "Another name"), connectionFields],
    async () => (await ofConnections()).updateConnection,
  ),
  leaf(
    "delete <connection>",
    "Delete one; steps that name it fail from then on",
    [folder, project],
    async () => (await ofConnections()).deleteConnection,
  ),
]);

const workspaces = group("workspaces", "Workspaces and their projects", [
  leaf("list", "List workspaces", [folder, asJson], async () => (await ofWorkspaces()).listWorkspaces),
  leaf(
    "create <name>",
    "Make a workspace with a project",
    [folder, asJson, option("--owner <email>", "Who owns it")],
    async () => (await ofWorkspaces()).createWorkspace,
  ),
  leaf(
    "update [workspace]",
    "Change a workspace, by id or name (default: the first)",
    [
      folder,
      asJson,
      option("--owner-email <email>", "Who is mailed when webhooks fail; empty for nobody"),
      option("--name <name>", "Name"),
    ],
    async () => (await ofWorkspaces()).updateWorkspace,
  ),
  group("projects", "Projects of a workspace", [
    leaf(
      "list",
      "List projects",
      [folder, workspace, asJson],
      async () => (await ofWorkspaces()).listProjects,
    ),
    leaf(
      "create <name>",
      "Make a project",
      [folder, workspace, asJson],
      async () => (await ofWorkspaces()).createProject,
    ),
  ]),
]);

const backup = group("backup", "Backups; also while the server runs", [
  leaf(
    "create [file]",
    "Write one checked file (default: into the data folder)",
    [folder, asJson, option("--with-key", "Keep the key that opens its secrets in the file as well")],
    async () => (await ofBackup()).createBackup,
  ),
  leaf(
    "list",
    "List the backups in the data folder",
    [folder, asJson],
    async () => (await ofBackup()).listBackups,
  ),
  leaf("verify <file>", "Read a backup through", [asJson], async () => (await ofBackup()).verifyBackup),
]);

const restore = leaf(
  "restore <file>",
  "Bring a backup into a data folder; the server must not run",
  [folder, asJson, option("--force", "Also into a folder with a database; what was there is kept beside it")],
  async () => (await ofBackup()).restore,
);

const prune = leaf(
  "prune",
  "Forget what ended long ago: runs, conversations, deliveries, events",
  [
    forSettings("data", "retention_days"),
    asJson,
    option("--older-than <age>", "Age since its end: 12h, 30d, 8w (default: retention_days)"),
    option("--dry-run", "Count what would go, and delete nothing"),
  ],
  async () => (await import("./prune.ts")).prune,
);

const migrate = group("migrate", "The database's schema", [
  leaf(
    "status",
    "List the steps and when they were applied",
    [folder, asJson],
    async () => (await ofMigrate()).migrateStatus,
  ),
  leaf(
    "up",
    "Apply what is pending, after a backup",
    [folder, asJson],
    async () => (await ofMigrate()).migrateUp,
  ),
]);

const config = group("config", "The configuration in force", [
  leaf(
    "show",
    "List every setting",
    [everySetting, asJson, option("--origin", "Tell where each value comes from")],
    async () => (await ofConfig()).showConfig,
  ),
  leaf(
    "path",
    "Print the configuration file that is read",
    [folder],
    async () => (await ofConfig()).showConfigPath,
  ),
]);

/** Every command there is, in the order that help tells them. */
export const commands: Entry[] = [
  leaf("serve", "Run the server", [everySetting], async () => (await ofServe()).serve),
  leaf(
    "dev",
    "Run the server for development: limiter on, loopback targets allowed, readable logs",
    [everySettingBut("deployment")],
    async () => (await ofServe()).dev,
  ),
  leaf(
    "demo",
    "Run the whole loop once in a temporary folder",
    [],
    async () => (await import("./demo.ts")).demo,
  ),
  keys,
  webhooks,
  ...agentCommands,
  ...workflowCommands,
  ...conversationCommands,
  ...triggerCommands,
  connections,
  events,
  workspaces,
  backup,
  restore,
  prune,
  migrate,
  leaf(
    "doctor",
    "Look the installation over",
    [everySetting, asJson, option("--quiet", "Print only what is not in order")],
    async () => (await import("./doctor/index.ts")).doctor,
  ),
  leaf(
    "healthcheck",
    "Exit 0 when the server is healthy, else 1",
    [forSettings("data", "host", "port")],
    async () => (await import("./healthcheck.ts")).healthcheck,
  ),
  config,
  leaf("version", "Print the version", [asJson], async () => (await import("./version.ts")).showVersion),
  leaf(
    "completion <shell>",
    `Print completions for ${SHELLS.join(", ")}`,
    [],
    async () => (await import("./completion.ts")).printCompletion,
  ),
];
