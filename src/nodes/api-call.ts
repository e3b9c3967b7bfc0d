import Type from "typebox";
import { secretsOf } from "../connections/conceal.ts";
import type { OpenConnection } from "../connections/types.ts";
import type { EgressAnswer } from "../egress/egress.ts";
import { conceal, concealBytes } from "../lib/conceal.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { authenticationHeaders } from "../webhooks/authentication.ts";
import { BODY_TYPES, contentOf } from "./api-content.ts";
import { connectionField, openConnection } from "./connection.ts";
import { defineNode, NodeError } from "./node.ts";
import { checkStatus, mediaTypeOf, textOf, toNodeError } from "./outgoing.ts";

const DEFAULT_SECONDS = 30;
const LARGEST_ANSWER = 5 * 1024 * 1024;
const MOST_REDIRECTS = 3;
const CONNECTIONS = ["bearer", "basic", "header"] as const;
const RESPONSE_TYPES = ["auto", "json", "text", "base64"] as const;

const scalar = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);
const scalarOrNull = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]);

export const apiCall = defineNode({
  name: "api_call",
  title: "API call",
  description: "Sends an HTTP request and gives on what came back.",
  effect: "external",
  // The key that goes along lets a careful receiver see a repeat as one.
  retries: { max_attempts: 3, delay_seconds: 1, backoff_multiplier: 2 },
  connections: [...CONNECTIONS],
  input: Type.Object(
    {
      url: Type.String({ minLength: 1, maxLength: 8192, description: "Address, http or https." }),
      method: Type.Optional(
        Type.Enum(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], {
          description: "GET unless given.",
        }),
      ),
      connection: connectionField("Credentials to send along"),
      headers: Type.Optional(Type.Record(Type.String(), scalar, { description: "Request headers." })),
      query: Type.Optional(
        Type.Record(Type.String(), Type.Union([scalarOrNull, Type.Array(scalar, { maxItems: 1_000 })]), {
          description:
            "Query parameters, added to those of the address; a list is sent as one each, null leaves one out.",
        }),
      ),
      body: Type.Optional(Type.Unknown({ description: "What to send; body_type says how." })),
      body_type: Type.Optional(
        Type.Enum([...BODY_TYPES], {
          description:
            "auto: text as it is, anything else as JSON. json. text. form: an object, as a web form sends it. multipart: an object of texts and of files {filename, content or content_base64, media_type}. base64: the bytes that the text stands for. auto unless given.",
        }),
      ),
      response_type: Type.Optional(
        Type.Enum([...RESPONSE_TYPES], {
          description:
            "auto: JSON parsed, other texts as text, anything else as base64. json: fails on anything else. text. base64: the bytes as they came. auto unless given.",
        }),
      ),
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
      description: "Response headers, names in lower case, cookies left out.",
    }),
    body: Type.Unknown({ description: "What came back, as response_type says." }),
    encoding: Type.Enum(["json", "text", "base64"], { description: "What `body` is." }),
    media_type: Type.String({ description: "What the server calls it, such as application/json." }),
    duration_ms: Type.Integer({ description: "From the first byte out to the last byte in." }),
  }),
  async run(input, run) {
    const { egress, hop, idempotencyKey, signal } = run;
    const { headers, body } = contentOf(input);
    const connection = await openConnection(run, input.connection, CONNECTIONS);
    const url = withQuery(input.url, input.query ?? {});
    if (connection) checkHost(url, connection);
    const credentials = Object.entries(connection ? headersOf(connection) : {});
    const answer = await egress
      .request({
        method: input.method ?? "GET",
        url,
        // The hop comes last: a workflow that calls its own webhook must not talk its way out of the count.
        headers: {
          "idempotency-key": idempotencyKey,
          ...headers,
          ...Object.fromEntries(credentials.map(([name, value]) => [name.toLowerCase(), value])),
          "x-service-hop": String(hop + 1),
        },
        body,
        timeoutMs: (input.timeout_seconds ?? DEFAULT_SECONDS) * 1_000,
        maxBytes: LARGEST_ANSWER,
        redirects: input.follow_redirects ? MOST_REDIRECTS : 0,
        signal,
      })
      .catch((error) => {
        throw toNodeError(error);
      });
    if (answer.truncated)
      throw new NodeError("ANSWER_TOO_LARGE", `The answer is over ${LARGEST_ANSWER} bytes.`);
    if (input.fail_on_status !== false) checkStatus(answer);
    const told = connection ? withoutSecrets(answer, connection) : answer;
    return {
      external_calls: 1,
      output: {
        status: told.status,
        headers: withoutCookies(told.headers),
        ...read(told, input.response_type ?? "auto"),
        media_type: mediaTypeOf(told.headers),
        duration_ms: Math.round(told.durationMs),
      },
    };
  },
});

type Credentials = Extract<OpenConnection, { type: (typeof CONNECTIONS)[number] }>;

const headersOf = (connection: Credentials): Record<string, string> =>
  connection.type === "header"
    ? { [connection.header]: connection.value }
    : authenticationHeaders(connection);

function checkHost(url: string, { name, hosts }: Credentials): void {
  if (hosts === undefined) return;
  if (!URL.canParse(url)) throw new NodeError("BAD_URL", "The address is not a URL.");
  const { host, hostname } = new URL(url);
  const fits = (allowed: string) =>
    allowed === host || allowed === hostname || (allowed.startsWith(".") && hostname.endsWith(allowed));
  if (hosts.some(fits)) return;
  throw new NodeError(
    "CONNECTION_HOST",
    `The connection ${JSON.stringify(name)} may not be sent to ${hostname}.`,
  );
}

function withQuery(url: string, query: Record<string, unknown>): string {
  const entries = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : value === null ? [] : [value]).map((one) => [name, String(one)] as const),
  );
  if (entries.length === 0) return url;
  if (!URL.canParse(url)) throw new NodeError("BAD_URL", "The address is not a URL.");
  const parsed = new URL(url);
  for (const [name, value] of entries) parsed.searchParams.append(name, value);
  return parsed.href;
}

type Read = { body: Json; encoding: "json" | "text" | "base64" };

function read(answer: EgressAnswer, wanted: (typeof RESPONSE_TYPES)[number]): Read {
  if (wanted === "base64") return asBase64(answer);
  if (wanted === "text") return { body: textOf(answer), encoding: "text" };
  const isJson = /[/+]json$/.test(mediaTypeOf(answer.headers));
  if (wanted === "json" || isJson) {
    try {
      return { body: JSON.parse(textOf(answer)) as Json, encoding: "json" };
    } catch {
      if (wanted === "json") throw new NodeError("NOT_JSON", "The answer is not JSON.", { retryable: false });
    }
  }
  return isText(answer) ? { body: textOf(answer), encoding: "text" } : asBase64(answer);
}

const asBase64 = ({ body }: EgressAnswer): Read => ({
  body: Buffer.from(body).toString("base64"),
  encoding: "base64",
});

const BINARY = /^(image|audio|video|font)\/|^application\/(octet-stream|pdf|zip|gzip|x-tar|wasm|vnd\.)/;

function isText({ headers, body }: EgressAnswer): boolean {
  const media_type = mediaTypeOf(headers);
  if (/^text\/|\+xml$/.test(media_type) || /charset=/i.test(headers["content-type"] ?? "")) return true;
  // SVG is called an image and is text; where nothing is said, the bytes speak for themselves.
  return !BINARY.test(media_type) && Buffer.from(body).every((byte) => byte !== 0) && isUtf8(body);
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function withoutSecrets(answer: EgressAnswer, connection: Credentials): EgressAnswer {
  const secrets = secretsOf(connection);
  const headers = Object.entries(answer.headers).map(([name, value]) => [name, conceal(value, secrets)]);
  return { ...answer, headers: Object.fromEntries(headers), body: concealBytes(answer.body, secrets) };
}

// A session of another server has no business in a stored step.
function withoutCookies({ "set-cookie": _, ...headers }: Record<string, string>): JsonObject {
  return headers;
}
