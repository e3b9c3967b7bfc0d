import type { Json, JsonObject } from "../lib/json.ts";

/** `data`: the picture's bytes in base64; `media_type` such as image/png. */
export type ContentPart =
  | { type: "text"; text: string }
  | { type: "image"; media_type: string; data: string };

/** `provider_data`: what a provider wants to see again with the call, under its name: others refuse it. */
export type ToolCall = { id: string; name: string; args: Json; provider_data?: JsonObject };

export type ModelMessage = {
  role: "system" | "user" | "assistant" | "tool";
  /** Pictures are for messages of the user alone. */
  content: string | ContentPart[];
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  /** What the model thought before it said this; some want to see it again. */
  reasoning?: string;
};

/** `parameters`: JSON Schema of an object. */
export type ModelTool = { name: string; description: string; parameters: JsonObject };

export type ToolChoice = "none" | "required" | { name: string };

/** The form of an answer; a provider that cannot hold a model to it is not told, and the prompt has to do. */
export type ResponseFormat =
  | { type: "json_object" }
  | { type: "json_schema"; schema: JsonObject; name?: string };

/** In milliseconds. */
export type TimeLimits = { connect: number; first_token: number; between_tokens: number; total: number };

export type ModelRequest = {
  /** provider/name */
  model: string;
  messages: ModelMessage[];
  tools?: ModelTool[];
  /** none: there are tools, and now is no time to call one; required: of any name, or of the one named. */
  tool_choice?: ToolChoice;
  temperature?: number;
  max_tokens?: number;
  reasoning_effort?: "minimal" | "low" | "medium" | "high";
  response_format?: ResponseFormat;
  limits?: Partial<TimeLimits>;
  /** Asked in turn where `model` fails before its first part. */
  fallback_models?: string[];
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
  | ({ type: "tool_call" } & ToolCall)
  | { type: "finish"; reason: string; usage: Usage };

export type Answer = { text: string; finish_reason: string; usage: Usage };

/** Where models come from: one file for each way of speaking to them. `name` is the request's model without the provider. */
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
  /**
   * Throws ModelError, also under way. Before the first part, and only then, it asks again once and after
   * that the fallback models.
   */
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
  | "MODEL_INTERRUPTED"
  | "MODEL_MISFIT";

/**
 * A model that did not answer. `message` is for those who hold a key of the project: it may repeat the
 * provider's words. `retryable`: it may go better later; `retry_after`: not before so many milliseconds.
 */
export class ModelError extends Error {
  constructor(
    readonly code: ModelErrorCode,
    message: string,
    readonly retryable: boolean,
    readonly retry_after?: number,
  ) {
    super(message);
    this.name = "ModelError";
  }
}
