import { type Asked, wordsIn } from "./asked.ts";

/**
 * Chat programs ask the model of a chat for titles, tags and the like as well. Such a request is no message
 * to the agent: it is answered by the agent's model alone, and nothing of it is kept or told to anybody.
 */
export type Housekeeping = { wants: "title" | "tags" | "follow_ups" | "queries" | "other"; chat: string };

// Open WebUI heads each of its prompts so and quotes the chat; the prompt with which it hands a real question
// over to the model ("Respond to the user query") is headed alike, and quotes none.
const OPEN_WEBUI = /^\s*### Task:/;
const LIBRECHAT = [
  /^\s*Provide a concise, 5-word-or-less title for the conversation/i,
  /^\s*Analyze this conversation and provide:/i,
];

/** Undefined: it is a message to the agent. */
export function housekeepingOf({
  said,
  instructions,
}: Pick<Asked, "said" | "instructions">): Housekeeping | undefined {
  const [only, ...more] = said;
  if (only?.role !== "user" || more.length > 0) return undefined;
  const text = wordsIn(only);
  const librechat = LIBRECHAT.some((prompt) => prompt.test(text) || prompt.test(instructions));
  if (librechat) return { wants: "title", chat: text };
  if (!OPEN_WEBUI.test(text)) return undefined;
  const chat = /<chat_history>([\s\S]*)<\/chat_history>/.exec(text)?.[1];
  if (chat === undefined)
    return /autocompletion system/.test(text) ? { wants: "other", chat: "" } : undefined;
  return { wants: wantedBy(text), chat };
}

function wantedBy(text: string): Housekeeping["wants"] {
  const task = text.slice(0, 2_000).toLowerCase();
  if (/"queries"|search quer/.test(task)) return "queries";
  if (/"follow_ups"|follow-up/.test(task)) return "follow_ups";
  if (/"tags"|broad tags/.test(task)) return "tags";
  return /title/.test(task) ? "title" : "other";
}

const LONGEST_TITLE = 60;

/** What stands for an answer where there is no model that could give one. */
export function byRule({ wants, chat }: Housekeeping): string {
  switch (wants) {
    case "title": {
      const first = /(?:^|\n)\s*(?:USER|User|Human):\s*(.+)/.exec(chat)?.[1] ?? "New chat";
      const title = first.length > LONGEST_TITLE ? `${first.slice(0, LONGEST_TITLE - 1).trimEnd()}…` : first;
      return JSON.stringify({ title: title.trim() });
    }
    case "tags":
      return JSON.stringify({ tags: ["General"] });
    case "follow_ups":
      return JSON.stringify({ follow_ups: [] });
    case "queries":
      return JSON.stringify({ queries: [] });
    case "other":
      return "";
  }
}
