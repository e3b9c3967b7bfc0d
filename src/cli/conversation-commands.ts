import { type Entry, group, leaf } from "./entry.ts";
import { asJson, folder, option, project } from "./options.ts";

const ofConversations = () => import("./conversations.ts");
const record = [folder, asJson];

/** What was said to agents. */
export const conversationCommands: Entry[] = [
  group("conversations", "What was said to agents", [
    leaf(
      "list",
      "List conversations, newest first",
      [
        folder,
        project,
        asJson,
        option("--agent <id>", "Only of this agent"),
        option("--user <id>", "Only of this user"),
        option("--tag <tag>", "Only those with this tag"),
        option("--status <status>", "Only active or completed ones"),
        option("--waiting", "Only those in which a call waits for approval"),
        option("--limit <count>", "How many (default: 50)"),
      ],
      async () => (await ofConversations()).listConversations,
    ),
    leaf(
      "show <id>",
      "Show one with its messages",
      record,
      async () => (await ofConversations()).showConversation,
    ),
    leaf(
      "close <id>",
      "Complete one, with what came of it",
      [
        ...record,
        option("--score <number>", "How satisfied the user was"),
        option("--type <type>", "How it was resolved, such as answered"),
        option("--category <category>", "What it was about; goes with --type"),
      ],
      async () => (await ofConversations()).closeConversation,
    ),
    leaf(
      "approve <id> <approval>",
      "Let a call of a tool run that waits in one, as show lists them; the answer goes on in the server",
      record,
      async () => (await ofConversations()).approveCall,
    ),
    leaf(
      "deny <id> <approval>",
      "Let it not run; the answer goes on without",
      [...record, option("--reason <text>", "What the model is told of why")],
      async () => (await ofConversations()).denyCall,
    ),
    leaf(
      "delete <id>",
      "Delete one with all that was said in it",
      [folder],
      async () => (await ofConversations()).deleteConversation,
    ),
  ]),
];
