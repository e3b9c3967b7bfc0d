import { type Entry, group, leaf } from "./entry.ts";
import { asJson, folder, option, project } from "./options.ts";

const ofTriggers = () => import("./triggers.ts");

// Named here once more: the schemas behind them are not loaded for a page of help.
const TYPES = "none, bearer, basic, header, hmac, standard_webhooks, github, stripe, slack, shopify";

const record = [folder, project, asJson];
const secretFrom = option(
  "--secret-from <file>",
  "File with the secret that its sender signs with or sends; - is standard input",
);
const overlap = option(
  "--overlap-seconds <seconds>",
  "How long the old secret still counts (default: a day)",
);
const body = [
  option("--name <name>", "Name"),
  option("--description <text>", "What it is for"),
  option("--auth <type>", `How its sender is known: ${TYPES}`),
  secretFrom,
  option("--message <template>", "What the agent is told, such as 'Push to {{ event.body.ref }}'"),
  option(
    "--conversation-id <template>",
    "What comes to the same text is one conversation; empty: a new one each time",
  ),
  option("--method <method>", "The one method that it takes; any for all"),
  option("--response-code <status>", "What it answers, 200 to 299"),
  option("--active <yes or no>", "Whether it takes calls"),
  option(
    "--from <file>",
    "JSON file with these and further fields, as the API has them; - is standard input",
  ),
];

/** Webhook addresses of agents. */
export const triggerCommands: Entry[] = [
  group(
    "triggers",
    "Webhook addresses of agents: GitHub, Stripe, Slack and whoever signs or knows a secret",
    [
      leaf(
        "list",
        "List triggers",
        [...record, option("--agent <id>", "Only of this agent")],
        async () => (await ofTriggers()).listTriggers,
      ),
      leaf("show <id>", "Show one, without its secret", record, async () => (await ofTriggers()).showTrigger),
      leaf(
        "create <agent>",
        "Make one; prints its address, and a secret that was made for it once",
        [...record, ...body],
        async () => (await ofTriggers()).createTrigger,
      ),
      leaf("update <id>", "Change one", [...record, ...body], async () => (await ofTriggers()).updateTrigger),
      leaf(
        "delete <id>",
        "Delete one with the record of its calls",
        [folder, project],
        async () => (await ofTriggers()).deleteTrigger,
      ),
      leaf(
        "events <id>",
        "List what called it and what came of it, newest first",
        [
          ...record,
          option("--limit <count>", "How many (default: 50)"),
          option("--status <status>", "Only accepted, rejected, completed or failed ones"),
        ],
        async () => (await ofTriggers()).listTriggerEvents,
      ),
      leaf(
        "redeliver <id> <event>",
        "Tell the agent of a call once more",
        record,
        async () => (await ofTriggers()).redeliverTriggerEvent,
      ),
      leaf(
        "rotate-secret <id>",
        "Exchange its secret; the old one counts beside the new one for a while",
        [...record, secretFrom, overlap],
        async () => (await ofTriggers()).rotateTriggerSecret,
      ),
    ],
  ),
];
