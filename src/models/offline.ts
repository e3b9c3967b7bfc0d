import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { formed } from "./formed.ts";
import { type ModelMessage, type ModelPart, type ModelRequest, type Provider, wordsIn } from "./model.ts";

const NAME = "errand";

/**
 * The model that is always there: no network, no weights, the same answer to the same words. It says what
 * it is and what it heard, and calls a tool where it is told so in as many words (`/tool_name {"json"}`), so
 * that a fresh installation shows its whole loop; and how to add a model.
 */
export const offline: Provider = {
  name: "offline",
  configured: true,
  usual_model: NAME,
  async *stream(request) {
    const asked = commandOf(request);
    const usage = { prompt_tokens: words(request.messages.map(wordsIn).join(" ")), completion_tokens: 0 };
    if (asked && "call" in asked) {
      yield asked.call;
      yield { type: "finish", reason: "tool-calls", usage: { ...usage, completion_tokens: 1 } };
      return;
    }
    const said = asked?.answer ?? answerTo(request);
    const answer = inForm(said, request.response_format);
    for (const word of answer.match(/\S+\s*/g) ?? []) {
      if (request.signal.aborted) return;
      yield { type: "text", text: word };
    }
    yield { type: "finish", reason: "stop", usage: { ...usage, completion_tokens: words(answer) } };
  },
};

/** What a schema asks for that takes thought is left out; whoever reads the answer tells that it does not fit. */
function inForm(said: string, format: ModelRequest["response_format"]): string {
  if (!format) return said;
  const value = format.type === "json_schema" ? formed(format.schema, said) : undefined;
  return JSON.stringify(value ?? { answer: said });
}

const words = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length;

type Command = { call: Extract<ModelPart, { type: "tool_call" }> } | { answer: string };

/** What a message asks of the tools, or what they have answered. Undefined: the message is about something else. */
function commandOf({ messages, tools = [], tool_choice }: ModelRequest): Command | undefined {
  const last = messages.at(-1);
  if (last?.role === "tool") return { answer: toolAnswers(messages) };
  const given = last?.role === "user" ? wordsIn(last).trim() : "";
  const command = /^\/([\w-]+)(?:\s+([\w-]+))?\s*(\{[\s\S]*\})?$/.exec(given);
  if (!command || tools.length === 0 || tool_choice === "none") return undefined;
  const [, first, second, json = "{}"] = command;
  // `/tool` alone means the only one there is.
  const name = first === "tool" ? (second ?? (tools.length === 1 ? tools[0]!.name : "")) : first!;
  if (!tools.some((tool) => tool.name === name)) {
    const names = tools.map((tool) => `/${tool.name}`).join(", ");
    return { answer: `I can call ${names}, followed by the arguments as a JSON object.` };
  }
  const args = argumentsIn(json);
  if (!args) return { answer: `What follows /${name} is not a JSON object.` };
  return { call: { type: "tool_call", id: `call_${messages.length}`, name, args } };
}

function argumentsIn(text: string): JsonObject | undefined {
  try {
    const value: Json = JSON.parse(text);
    return isObject(value) ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}

/** What the calls of the last step gave. */
function toolAnswers(messages: ModelMessage[]): string {
  const step = messages.findLastIndex(({ role }) => role === "assistant");
  const names = new Map(messages[step]?.tool_calls?.map(({ id, name }) => [id, name]));
  return messages
    .slice(step + 1)
    .map(
      (message) =>
        `${names.get(message.tool_call_id ?? "") ?? "The tool"} answered: ${cut(wordsIn(message))}`,
    )
    .join("\n");
}

const LONGEST_QUOTE = 200;
const LONGEST_RESULT = 4_000;
const cut = (text: string, longest = LONGEST_RESULT): string =>
  text.length > longest ? `${text.slice(0, longest)}...` : text;

function answerTo({ messages, tools = [] }: ModelRequest): string {
  const last = messages.findLast((message) => message.role === "user");
  const asked = last ? wordsIn(last).trim() : "";
  const turns = messages.filter((message) => message.role === "user").length;
  const heard = asked === "" ? "I received an empty message." : `You said: "${cut(asked, LONGEST_QUOTE)}"`;
  const place = turns > 1 ? ` This is message ${turns} of our conversation, and I keep all of it.` : "";
  const able =
    tools.length > 0 ? `I call a tool when a message says so, such as: /${tools[0]!.name} {...}. ` : "";
  return (
    `${heard}${place} I am Errand's offline model: I run inside this program, need no network and do not think. ` +
    `Everything around me is real: this conversation is stored, streamed and told to webhooks. ${able}` +
    "For real answers set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider's key, OPENAI_BASE_URL for a " +
    "server that speaks OpenAI's protocol, or OLLAMA_HOST, and start Errand again; errand models lists them."
  );
}
