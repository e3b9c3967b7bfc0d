import { type Entry, group, leaf } from "./entry.ts";
import { asJson, everySetting, everySettingBut, folder, option, project } from "./options.ts";

const ofAgents = () => import("./agents.ts");

const record = [folder, project, asJson];
const body = [
  option("--name <name>", "Name"),
  option("--system-prompt <text>", "What it is told to be"),
  option("--description <text>", "What others are told of it"),
  option("--model <model>", "provider/name (default: the configured one)"),
  option("--visibility <visibility>", "private or public"),
  option("--from <file>", "JSON file with these and further fields; - is standard input"),
];

/** Agents, and the models that they answer by. */
export const agentCommands: Entry[] = [
  group("agents", "Agents: make, change and restore them", [
    leaf("list", "List agents", record, async () => (await ofAgents()).listAgents),
    leaf("show <id>", "Show one", record, async () => (await ofAgents()).showAgent),
    leaf("create", "Make one", [...record, ...body], async () => (await ofAgents()).createAgent),
    leaf("update <id>", "Change one", [...record, ...body], async () => (await ofAgents()).updateAgent),
    leaf("delete <id>", "Delete one", [folder, project], async () => (await ofAgents()).deleteAgent),
    leaf("versions <id>", "List what it was", record, async () => (await ofAgents()).listAgentVersions),
    leaf(
      "restore <id> <version>",
      "Make it what it was",
      record,
      async () => (await ofAgents()).restoreAgentVersion,
    ),
  ]),
  leaf(
    "chat <agent> [message]",
    "Talk to an agent, by id or name; with a message, or one on standard input, for one answer",
    [
      everySettingBut("host", "port"),
      project,
      option("--conversation <id>", "Go on with this one (default: a new one)"),
      option("--yes", "Run calls that want approval without asking"),
      asJson,
    ],
    async () => (await import("./chat.ts")).chat,
  ),
  leaf(
    "models",
    "List where models come from, and look for servers on this machine",
    [everySetting, asJson],
    async () => (await import("./models.ts")).listModels,
  ),
];
