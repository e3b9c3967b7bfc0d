import { describe, invalidField } from "../lib/errors.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
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

export type ChatRequest = Asked & { include_usage: boolean };

const MOST_MESSAGES = 4_096;

/** Reads the body of a chat completion. Throws `invalid_input`, the field at fault named. */
export function readChat(body: Body, headers: Headers): ChatRequest {
  const { n, messages, response_format: format, stream_options: options } = body;
  if (n !== undefined && n !== null && n !== 1) throw invalidField("n", "1", describe(n));
  if (!Array.isArray(messages) || messages.length === 0)
    throw invalidField("messages", "an array with at least one message", describe(messages));
  if (messages.length > MOST_MESSAGES)
    throw invalidField("messages", `at most ${MOST_MESSAGES} messages`, `${messages.length}`);
  const instructions: string[] = [];
  const said: Said[] = [];
  for (const [index, message] of messages.entries()) {
    const read = readMessage(message, `messages.${index}`);
    if (read.role === "system") instructions.push(wordsIn(read));
    else said.push(read as Said);
  }
  if (said.length === 0) throw invalidField("messages", "a message of the user", "instructions alone");
  // The form's name and schema stand one level deeper here than in a response's.
  const wanted =
    isObject(format) && isObject(format["json_schema"])
      ? { ...format["json_schema"], type: format["type"] }
      : format;
  return {
    model: textAt(body["model"], "model"),
    instructions: instructions.filter((text) => text !== "").join("\n\n"),
    said,
    theirs: readTools(body, (tool) => tool["function"]),
    model_config: readConfig(
      body,
      body["max_completion_tokens"] ?? body["max_tokens"],
      body["reasoning_effort"],
    ),
    response_format: readFormat(wanted, "response_format"),
    stream: readFlag(body, "stream"),
    include_usage: isObject(options) && options["include_usage"] === true,
    conversation: readConversation(body, headers, said),
    user_id: readUser(body, headers),
  };
}

function readMessage(message: unknown, at: string): Omit<Said, "role"> & { role: Said["role"] | "system" } {
  if (!isObject(message)) throw invalidField(at, "a message", describe(message));
  const { role } = message;
  const content = readContent(message["content"], `${at}.content`, role === "user");
  switch (role) {
    case "system":
    case "developer":
      return { role: "system", content };
    case "user":
      if (content.length === 0) throw invalidField(`${at}.content`, "text", "nothing");
      return { role, content };
    case "assistant":
      return { role, content, ...callsOf(message, `${at}.tool_calls`) };
    case "tool":
      return { role, content, tool_call_id: textAt(message["tool_call_id"], `${at}.tool_call_id`) };
    default: {
      const given = typeof role === "string" ? role.slice(0, 40) : describe(role);
      throw invalidField(`${at}.role`, "system, developer, user, assistant or tool", given);
    }
  }
}

function callsOf({ tool_calls: calls }: Body, at: string): Pick<Said, "tool_calls"> {
  if (calls === undefined || calls === null) return {};
  if (!Array.isArray(calls)) throw invalidField(at, "an array", describe(calls));
  if (calls.length === 0) return {};
  return {
    tool_calls: calls.map((call, index) => {
      const field = `${at}.${index}`;
      if (!isObject(call)) throw invalidField(field, "a call", describe(call));
      const { id, function: given, extra_content: extra } = call;
      return {
        ...readCall(id, given, field),
        ...(isObject(extra) ? { provider_data: extra as JsonObject } : {}),
      };
    }),
  };
}
