import { describe, invalidField } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { type Asked, type Said, wordsIn } from "./asked.ts";
import {
  readCall,
  readConfig,
  readContent,
  readConversation,
  readFlag,
  readFormat,
  readTools,
  readUser,
  textAt,
} from "./reading.ts";

type Body = Record<string, unknown>;

export type ResponseRequest = Asked & {
  /** The request's own items, without those that it refers to. */
  input: unknown[];
  previous_id: string | null;
  store: boolean;
  /** What the answer repeats of the request. */
  echo: Body;
};

/** Where the items are that a request refers to; `item` answers undefined for one that is not on record. */
export type Referred = {
  upTo(id: string): Promise<unknown[]>;
  item(id: string): Promise<unknown>;
};

const MOST_ITEMS = 4_096;

/** Reads the body of a request for a response. Throws `invalid_input`, the field at fault named. */
export async function readResponse(body: Body, headers: Headers, record: Referred): Promise<ResponseRequest> {
  const { input, previous_response_id: previous = null, reasoning, text, conversation: given } = body;
  const input_items = typeof input === "string" ? [{ role: "user", content: input }] : input;
  if (!Array.isArray(input_items) || input_items.length === 0)
    throw invalidField("input", "text or an array with at least one item", describe(input));
  if (body["background"] === true)
    throw invalidField("background", "false: answers are not made in the background", "true");
  const previous_id = previous === null ? null : textAt(previous, "previous_response_id");
  const before = previous_id === null ? [] : await record.upTo(previous_id);
  if (before.length + input_items.length > MOST_ITEMS)
    throw invalidField("input", `at most ${MOST_ITEMS} items`, `${before.length + input_items.length}`);
  const instructions: string[] = [];
  if (body["instructions"] !== undefined && body["instructions"] !== null)
    instructions.push(textAt(body["instructions"], "instructions"));
  const named = isObject(given) ? given["id"] : (given ?? undefined);
  const threads = named === undefined ? body : { ...body, metadata: { conversation_id: named } };
  const said: Said[] = [];
  for (const [index, item] of before.entries()) add(said, instructions, readItem(item, `previous.${index}`));
  for (const [index, sent] of input_items.entries()) {
    const at = `input.${index}`;
    const isReference = isObject(sent) && sent["type"] === "item_reference";
    const item = isReference ? await record.item(textAt(sent["id"], `${at}.id`)) : sent;
    if (item !== undefined) add(said, instructions, readItem(item, at));
    else if (!readConversation(threads, headers, said))
      throw invalidField(`${at}.id`, "an item on record", "an unknown one");
    // In a conversation what is on record is the context, whatever the client refers to.
  }
  if (said.length === 0) throw invalidField("input", "a message of the user", "instructions alone");
  const effort = isObject(reasoning) ? reasoning["effort"] : undefined;
  const { metadata = {}, temperature = null, tools = [], tool_choice = "auto" } = body;
  return {
    model: textAt(body["model"], "model"),
    instructions: instructions.filter((words) => words !== "").join("\n\n"),
    said,
    theirs: readTools(body, (tool) => tool),
    model_config: readConfig(body, body["max_output_tokens"], effort),
    response_format: readFormat(isObject(text) ? text["format"] : undefined, "text.format"),
    stream: readFlag(body, "stream"),
    conversation: readConversation(threads, headers, said),
    user_id: readUser(body, headers),
    input: input_items,
    previous_id,
    store: body["store"] !== false,
    echo: { metadata, temperature, tools, tool_choice, instructions: body["instructions"] ?? null },
  };
}

type Read = (Omit<Said, "role"> & { role: Said["role"] | "system" }) | undefined;

function add(said: Said[], instructions: string[], item: Read): void {
  if (!item) return;
  if (item.role === "system") {
    instructions.push(wordsIn(item));
    return;
  }
  const last = said.at(-1);
  // One answer of the model: its words and its calls are items of their own here.
  if (item.role === "assistant" && item.tool_calls && last?.role === "assistant") {
    last.tool_calls = [...(last.tool_calls ?? []), ...item.tool_calls];
  } else said.push(item as Said);
}

function readItem(item: unknown, at: string): Read {
  if (!isObject(item)) throw invalidField(at, "an item", describe(item));
  const { type = "message", role } = item;
  switch (type) {
    case "message": {
      const content = readContent(item["content"], `${at}.content`, role === "user");
      if (role === "system" || role === "developer") return { role: "system", content };
      if (role === "assistant") return { role, content };
      if (role !== "user")
        throw invalidField(`${at}.role`, "user, assistant, system or developer", describe(role));
      if (content.length === 0) throw invalidField(`${at}.content`, "text", "nothing");
      return { role, content };
    }
    case "function_call":
      return { role: "assistant", content: [], tool_calls: [readCall(item["call_id"], item, at)] };
    case "function_call_output": {
      const { output } = item;
      const content = readContent(output, `${at}.output`, false);
      return { role: "tool", content, tool_call_id: textAt(item["call_id"], `${at}.call_id`) };
    }
    case "reasoning":
      return undefined;
    default: {
      const given = typeof type === "string" ? type.slice(0, 40) : describe(type);
      throw invalidField(`${at}.type`, "message, function_call or function_call_output", given);
    }
  }
}
