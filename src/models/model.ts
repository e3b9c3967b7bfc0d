import type { Json, JsonObject } from "../lib/json.ts";

/** `data`: the picture's bytes in base64; `media_type` such as image/png. */
export type ContentPart =
  | { type: "text"; text: string }
  | { type: "image"; media_type: string; data: string };

export type ModelMessage = {
  role: "system" | "user" | "assistant" | "tool";
  /** Pictures are for messages of the user alone. */
  content: string | ContentPart[];
  tool_calls?: { id: string; name: string; args: Json }[];
  tool_call_id?: string;
};

/** `parameters`: JSON Schema of an object. */
export type ModelTool = { name: string; description: string; parameters: JsonObject };

export type ModelRequest = {
  /** provider/name */
  model: string;
  messages: ModelMessage[];
  tools?: ModelTool[];
  /** none: there are tools, and now is no time to call one. */
  tool_choice?: "none";
  temperature?: number;
  max_tokens?: number;
  signal: AbortSignal;
  /** A key of the caller's own in place of the operator's; such a request reaches public servers alone. */
  access?: { api_key: string; base_url?: string };
};

/** What a message says in words. */
export const wordsIn = ({ content }: Pick<ModelMessage, "content">): string =>
  typeof content === "string"
    ? content
    : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

export type Usage = { prompt_tokens: number; completion_tokens: number };

/** `finish` comes last and once; `reason` is stop, length, tool-calls, content-filter or other. */
export type ModelPart =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "tool_call"; id: string; name: string; args: Json }
  | { type: "finish"; reason: string; usage: Usage };

export type Answer = { text: string; finish_reason: string; usage: Usage };

/** Where models come from: one file each. `name` is the request's model without the provider. */
export type Provider = {
  name: string;
  /** Whether the operator has given what it needs. */
  configured: boolean;
  /** The model to use where none is named; undefined: the operator must say. */
  usual_model?: string;
  stream(request: ModelRequest, name: string): AsyncIterable<ModelPart>;
};

export type Models = {
  default_model: string;
  /** Throws ModelError, also under way. Asks again once, and only before the first part. */
  stream(request: ModelRequest): AsyncIterable<ModelPart>;
  complete(request: ModelRequest): Promise<Answer>;
  list(): { provider: string; configured: boolean; usual_model: string | null; is_default: boolean }[];
};

export type ModelErrorCode =
  | "MODEL_UNKNOWN"
  | "MODEL_UNREACHABLE"
  | "MODEL_UNAUTHORIZED"
  | "MODEL_RATE_LIMITED"
  | "MODEL_REFUSED"
  | "MODEL_FAILED"
  | "MODEL_TIMEOUT"
  | "MODEL_GARBAGE"
  | "MODEL_INTERRUPTED";

/** A model that did not answer. `message` is for the reader of the chat; `retryable`: it may go better later. */
export class ModelError extends Error {
  constructor(
    readonly code: ModelErrorCode,
    message: string,
    readonly retryable: boolean,
  ) {
    super(message);
    this.name = "ModelError";
  }
}
