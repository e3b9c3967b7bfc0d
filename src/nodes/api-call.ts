import Type from "typebox";
import { type EgressAnswer, EgressError } from "../egress/egress.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { defineNode, NodeError } from "./node.ts";

const DEFAULT_SECONDS = 30;
const LARGEST_ANSWER = 5 * 1024 * 1024;
const MOST_REDIRECTS = 3;

export const apiCall = defineNode({
  name: "api_call",
  title: "API call",
  description: "Sends an HTTP request and gives on what came back.",
  effect: "external",
  // The key that goes along lets a careful receiver see a repeat as one.
  retries: { max_attempts: 3, delay_seconds: 1, backoff_multiplier: 2 },
  input: Type.Object(
    {
      url: Type.String({ minLength: 1, maxLength: 8192, description: "Address, http or https." }),
      method: Type.Optional(
        Type.Enum(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], { description: "GET unless given." }),
      ),
      headers: Type.Optional(
        Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
          description: "Request headers.",
        }),
      ),
      query: Type.Optional(
        Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]), {
          description: "Query parameters, added to those of the address; null leaves one out.",
        }),
      ),
      body: Type.Optional(Type.Unknown({ description: "Text is sent as it is, anything else as JSON." })),
      timeout_seconds: Type.Optional(
        Type.Number({ exclusiveMinimum: 0, maximum: 300, description: "For all of it; 30 unless given." }),
      ),
      fail_on_status: Type.Optional(
        Type.Boolean({
          description: "Whether an answer of 400 and above fails the step; true unless given.",
        }),
      ),
      follow_redirects: Type.Optional(
        Type.Boolean({ description: "Follow up to three; false unless given." }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    status: Type.Integer({ description: "HTTP status." }),
    headers: Type.Record(Type.String(), Type.String(), {
      description: "Response headers, names in lower case.",
    }),
    body: Type.Unknown({ description: "Parsed when the answer is JSON, else its text." }),
    duration_ms: Type.Integer({ description: "From the first byte out to the last byte in." }),
  }),
  async run(input, { egress, hop, idempotencyKey, signal }) {
    const { headers, body } = contentOf(input.headers ?? {}, input.body);
    let answer: EgressAnswer;
    try {
      answer = await egress.request({
        method: input.method ?? "GET",
        url: withQuery(input.url, input.query ?? {}),
        // The hop comes last: a workflow that calls its own webhook must not talk its way out of the count.
        headers: { "idempotency-key": idempotencyKey, ...headers, "x-service-hop": String(hop + 1) },
        body,
        timeoutMs: (input.timeout_seconds ?? DEFAULT_SECONDS) * 1_000,
        maxBytes: LARGEST_ANSWER,
        redirects: input.follow_redirects ? MOST_REDIRECTS : 0,
        signal,
      });
    } catch (error) {
      if (!(error instanceof EgressError)) throw error;
      const retryable = error.class !== "blocked" && error.class !== "bad_url" && error.class !== "aborted";
      throw new NodeError(error.class.toUpperCase(), error.message, { retryable });
    }
    if (answer.truncated)
      throw new NodeError("ANSWER_TOO_LARGE", `The answer is over ${LARGEST_ANSWER} bytes.`);
    if (answer.status >= 400 && input.fail_on_status !== false) {
      const retryable = answer.status >= 500 || answer.status === 429 || answer.status === 408;
      throw new NodeError("HTTP_STATUS", `The server answered ${answer.status}.`, { retryable });
    }
    return {
      external_calls: 1,
      output: {
        status: answer.status,
        headers: withoutCookies(answer.headers),
        body: bodyOf(answer),
        duration_ms: Math.round(answer.durationMs),
      },
    };
  },
});

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function contentOf(
  given: Record<string, unknown>,
  body: unknown,
): { headers: Record<string, string>; body?: string } {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    const text = String(value);
    // The value may be a secret: the header is named, and no more.
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(text)) {
      throw new NodeError("BAD_HEADER", `The header ${JSON.stringify(name.slice(0, 100))} cannot be sent.`);
    }
    headers[name.toLowerCase()] = text;
  }
  if (body === undefined || body === null) return { headers };
  if (typeof body === "string")
    return { headers: { "content-type": "text/plain; charset=utf-8", ...headers }, body };
  return { headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
}

function withQuery(url: string, query: Record<string, unknown>): string {
  const entries = Object.entries(query).filter(([, value]) => value !== null);
  if (entries.length === 0) return url;
  if (!URL.canParse(url)) throw new NodeError("BAD_URL", "The address is not a URL.");
  const parsed = new URL(url);
  for (const [name, value] of entries) parsed.searchParams.append(name, String(value));
  return parsed.href;
}

function bodyOf({ headers, body }: EgressAnswer): Json {
  const text = new TextDecoder().decode(body);
  if (!/[/+]json\b/i.test(headers["content-type"] ?? "")) return text;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

// A session of another server has no business in a stored step.
function withoutCookies({ "set-cookie": _, ...headers }: Record<string, string>): JsonObject {
  return headers;
}
