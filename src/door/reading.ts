import { responseFormatFaults } from "../agents/response-format.ts";
import type { AgentSettings } from "../agents/schema.ts";
import { isAttachment, MOST_IMAGES, readImage } from "../agents/sent-images.ts";
import { isClientId } from "../agents/stream-body.ts";
import type { TheirTools } from "../agents/turn-loop.ts";
import { describe, invalid, invalidField } from "../lib/errors.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import type { ModelTool, ToolCall } from "../models/model.ts";
import { argumentsOf } from "../models/wire.ts";
import type { Asked, Said } from "./asked.ts";

// What both forms of a request have in common. Fields that nobody here acts on (stop, penalties, seed,
// store, what a client adds of its own) are taken and ignored, as chat clients send many.

type Body = Record<string, unknown>;

const LONGEST_TEXT = 1_000_000;
const MOST_TOOLS = 128;
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const TEXT_PARTS: unknown[] = ["text", "input_text", "output_text"];

export const textAt = (value: unknown, at: string): string => {
  if (typeof value !== "string") throw invalidField(at, "text", describe(value));
  if (value.length > LONGEST_TEXT) throw invalidField(at, `at most ${LONGEST_TEXT} characters`, "more");
  return value;
};

/** Text, or a list of parts: text and, where `pictures`, pictures. Null and what is missing are nothing. */
export function readContent(content: unknown, at: string, pictures: boolean): Said["content"] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: textAt(content, at) }];
  if (!Array.isArray(content)) throw invalidField(at, "text or an array of parts", describe(content));
  const parts = content.map((part, index): Said["content"][number] => {
    const field = `${at}.${index}`;
    if (!isObject(part)) throw invalidField(field, "a part", describe(part));
    const { type } = part;
    if (TEXT_PARTS.includes(type)) return { type: "text", text: textAt(part["text"], `${field}.text`) };
    if (type === "refusal") return { type: "text", text: textAt(part["refusal"], `${field}.refusal`) };
    if (pictures && isAttachment(part)) return { type: "image", image: readImage(part, field) };
    const taken = pictures ? "text or a picture" : "text";
    throw invalidField(`${field}.type`, taken, typeof type === "string" ? type.slice(0, 40) : describe(type));
  });
  if (parts.filter((part) => part.type === "image").length > MOST_IMAGES)
    throw invalidField(at, `at most ${MOST_IMAGES} pictures`, "more");
  return parts;
}

/** A call that the model made of a client's tool. */
export function readCall(id: unknown, given: unknown, at: string): ToolCall {
  if (!isObject(given)) throw invalidField(at, "a call of a function", describe(given));
  const { name, arguments: args = "" } = given;
  return {
    id: textAt(id, `${at}.id`),
    name: textAt(name, `${at}.name`),
    args: argumentsOf(textAt(args, `${at}.arguments`)),
  };
}

/** `functionOf`: where in a tool its function stands. */
export function readTools(
  { tools, tool_choice: choice }: Body,
  functionOf: (tool: Body) => unknown,
): TheirTools | undefined {
  if (tools === undefined || tools === null || choice === "none") return undefined;
  if (!Array.isArray(tools)) throw invalidField("tools", "an array", describe(tools));
  if (tools.length > MOST_TOOLS) throw invalidField("tools", `at most ${MOST_TOOLS}`, `${tools.length}`);
  const read = tools.map((tool, index): ModelTool => {
    const at = `tools.${index}`;
    const type = isObject(tool) ? tool["type"] : undefined;
    if (type !== "function")
      throw invalidField(
        `${at}.type`,
        "function",
        typeof type === "string" ? type.slice(0, 40) : describe(type),
      );
    const given = functionOf(tool as Body);
    if (!isObject(given)) throw invalidField(`${at}.function`, "an object", describe(given));
    const { name, description, parameters } = given;
    if (typeof name !== "string" || !TOOL_NAME.test(name))
      throw invalidField(`${at}.name`, "1 to 64 letters, digits, _ and -", describe(name));
    if (parameters !== undefined && parameters !== null && !isObject(parameters))
      throw invalidField(`${at}.parameters`, "a JSON Schema", describe(parameters));
    return {
      name,
      description: typeof description === "string" ? description : "",
      parameters: (parameters ?? { type: "object", properties: {} }) as JsonObject,
    };
  });
  if (read.length === 0) return undefined;
  const named = isObject(choice) ? (functionOf(choice) as Body | undefined)?.["name"] : undefined;
  if (choice === "required") return { tools: read, choice };
  if (typeof named === "string" && read.some(({ name }) => name === named))
    return { tools: read, choice: { name: named } };
  return { tools: read };
}

/** `format` as OpenAI's json_schema form has it, its fields beside the type. */
export function readFormat(format: unknown, at: string): AgentSettings["response_format"] | undefined {
  if (format === undefined || format === null) return undefined;
  const type = isObject(format) ? format["type"] : undefined;
  if (type === "text" || type === "json_object") return { type };
  if (type !== "json_schema")
    throw invalidField(`${at}.type`, "text, json_object or json_schema", describe(type));
  const { schema, name } = format as Body;
  if (!isObject(schema)) throw invalidField(`${at}.schema`, "a JSON Schema", describe(schema));
  const read = {
    type: "json_schema" as const,
    schema,
    ...(typeof name === "string" && TOOL_NAME.test(name) ? { name } : {}),
  };
  const faults = responseFormatFaults(read);
  if (faults.length > 0) throw invalid(faults);
  return read;
}

const EFFORTS = ["minimal", "low", "medium", "high"] as const;

/** `most`: the longest answer in tokens, by whichever name it came. */
export function readConfig({ temperature }: Body, most: unknown, effort: unknown): Asked["model_config"] {
  const config: Asked["model_config"] = {};
  if (temperature !== undefined && temperature !== null) {
    if (typeof temperature !== "number" || !(temperature >= 0 && temperature <= 2))
      throw invalidField("temperature", "a number from 0 to 2", describe(temperature));
    config.temperature = temperature;
  }
  if (most !== undefined && most !== null) {
    if (!Number.isSafeInteger(most) || (most as number) < 1)
      throw invalidField("max_tokens", "a whole number above 0", describe(most));
    config.max_tokens = Math.min(most as number, 1_000_000);
  }
  const known = EFFORTS.find((each) => each === effort);
  if (known) config.reasoning_effort = known;
  return config;
}

export function readFlag(body: Body, name: string): boolean {
  const value = body[name] ?? false;
  if (typeof value !== "boolean") throw invalidField(name, "true or false", describe(value));
  return value;
}

/** Open WebUI names the chat of each of its requests, and sends the whole of it. */
const CHAT_HEADERS = [
  "x-conversation-id",
  "x-openwebui-chat-id",
  "x-librechat-conversation-id",
  "x-session-id",
];
const CHAT_FIELDS = ["conversation_id", "chat_id", "session_id"];

/** By which id the client threads, if it does: in the metadata, in the body or in a header. */
export function readConversation(body: Body, headers: Headers, said: Said[]): Asked["conversation"] {
  const metadata = isObject(body["metadata"]) ? body["metadata"] : {};
  const given =
    metadata["conversation_id"] ??
    CHAT_FIELDS.map((field) => body[field]).find((value) => value !== undefined && value !== null) ??
    CHAT_HEADERS.map((name) => headers.get(name)).find((value) => value !== null);
  if (given === undefined || given === null || given === "") return undefined;
  if (!isClientId(given))
    throw invalidField("metadata.conversation_id", "text of 1 to 200 characters", describe(given));
  // What begins with an answer was cut short by the client.
  const whole = said[0]?.role === "user" && (said.length > 1 || headers.has("x-openwebui-chat-id"));
  return { id: given, whole };
}

export function readUser(body: Body, headers: Headers): string | null {
  const given = body["user"] ?? body["safety_identifier"] ?? headers.get("x-openwebui-user-id");
  return isClientId(given) ? given : null;
}
