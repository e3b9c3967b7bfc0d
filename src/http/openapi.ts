import { toOpenAPISchema } from "@elysiajs/openapi/openapi";
import { Elysia } from "elysia";
import { jsonOf, responses } from "./answers.ts";
import { type ErrorWording, errorCodes, statusOf, wireCode } from "./errors.ts";
import { policies } from "./policy.ts";
import type { Policy } from "./routes.ts";

export type OpenApiDocument = {
  openapi: string;
  info: { title: string; version: string; description?: string };
  servers: { url: string }[];
  tags: { name: string }[];
  security: Record<string, string[]>[];
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Record<string, unknown>>;
};

type Operation = {
  operationId: string;
  summary?: string;
  tags?: string[];
  parameters?: { name: string; in: string; schema?: object; required?: boolean }[];
  requestBody?: { description?: string; required?: boolean; content: Record<string, { schema: object }> };
  responses?: Record<string, { description: string; content?: Record<string, unknown> } | { $ref: string }>;
  security?: Record<string, string[]>[];
  "x-policy"?: Policy;
  "x-media"?: string[];
  /** Query parameters that a route's own service reads, because they are to be judged after the credentials. */
  "x-query"?: NonNullable<Operation["parameters"]>;
  "x-exempt"?: boolean;
  "x-errors"?: string;
  "x-secret-path"?: boolean;
};

/** `url` is asked when the document is made: with port 0 the address is known only once the server listens. */
type Info = { title: string; version: string; description?: string; url?: () => string };

type App = Parameters<typeof toOpenAPISchema>[0];

// The generator leaves the body out where a route has a parser of its own, and the gate's is on all.
const withoutParsers = (app: App): App =>
  ({
    getGlobalDefinitions: () => ({ type: {} }),
    getGlobalRoutes: () =>
      app.routes.map((route) => ({ ...route, hooks: { ...route.hooks, parse: undefined } })),
  }) as unknown as App;

/** The document of an app's routes, made when first asked for: it costs more than a start may. */
export function openapiDocument(app: () => App, info: Info): () => OpenApiDocument {
  let document: OpenApiDocument | undefined;
  return () => {
    document ??= build(app(), info);
    return document;
  };
}

/** `GET /openapi.json`: every public address, for clients and generators. */
export const openapiRoutes = ({ openapi }: { openapi: () => OpenApiDocument }) =>
  new Elysia({ name: "http.openapi" }).use(policies).get("/openapi.json", () => openapi(), {
    policy: "public",
    detail: {
      summary: "This interface as OpenAPI 3.1",
      tags: ["operations"],
      ...responses({ 200: { description: "The document.", content: jsonOf({ type: "object" }) } }),
    },
  });

function build(app: App, { url, ...info }: Info): OpenApiDocument {
  const made = toOpenAPISchema(withoutParsers(app), { staticFile: false } as never, undefined, {
    typebox: ((schema: { schema: object }) => plain(schema.schema)) as never,
  });
  const paths: OpenApiDocument["paths"] = {};
  const tags = new Set<string>();
  for (const [path, operations] of Object.entries(made.paths as Record<string, Record<string, Operation>>)) {
    const finished: Record<string, Operation> = {};
    for (const [method, operation] of Object.entries(operations)) {
      if (UNTOLD.includes(method)) continue;
      for (const tag of operation.tags ?? []) tags.add(tag);
      finished[method] = finish(method, path, operation);
    }
    paths[path === "/" ? path : path.replace(/\/$/, "")] = finished;
  }
  return {
    openapi: "3.1.1",
    info,
    servers: [{ url: url?.() ?? "/" }],
    tags: [...tags].sort().map((name) => ({ name })),
    security: [{ api_key: [] }],
    paths,
    components: {
      schemas: { Error: ERROR_SCHEMA, OpenAIError: OPENAI_ERROR_SCHEMA },
      responses: { ...errorResponses("", "Error"), ...errorResponses("openai", "OpenAIError") },
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

// The generator's share of "any method": the gate refuses one, no handler does anything for the others.
const UNTOLD = ["trace", "head", "options"];

// The generator's schemas share objects with the validators and carry their symbols.
const plain = (schema: object): object => JSON.parse(JSON.stringify(schema));

function finish(method: string, path: string, operation: Operation): Operation {
  const policy = operation["x-policy"] ?? "key";
  const {
    requestBody,
    responses: own,
    "x-media": media,
    "x-query": query = [],
    "x-errors": wording = "",
    ...rest
  } = operation;
  const parameters = [...(operation.parameters ?? []), ...query];
  delete rest["x-exempt"];
  delete rest["x-secret-path"];
  const content = requestBody?.content;
  const schema = content && (content["application/json"] ?? Object.values(content)[0])?.schema;
  const withBody = schema !== undefined;
  return {
    ...rest,
    operationId: operationId(method, path),
    ...(parameters.length > 0 ? { parameters: parameters.map(withDefault) } : {}),
    ...(withBody ? { requestBody: { required: true, content: bodyContent(schema, media) } } : {}),
    responses: {
      ...succeeded(method, own),
      ...refusals(policy, { withBody, named: path.includes("{"), wording }),
    },
    ...(SECURITY[policy] ? { security: SECURITY[policy] } : {}),
  };
}

type Parameter = NonNullable<Operation["parameters"]>[number];

// What has a default may be left out.
const withDefault = (parameter: Parameter): Parameter =>
  parameter.in === "query" && parameter.schema && "default" in parameter.schema
    ? { ...parameter, required: false }
    : parameter;

const bodyContent = (schema: object, media: string[] = []) =>
  Object.fromEntries(
    ["application/json", ...media].map((type) => [
      type,
      { schema: type.startsWith("text/") ? TEXT : schema },
    ]),
  );

const TEXT = { type: "string" };

// get /api/agents/{id}/triggers -> getApiAgentsByIdTriggers
const operationId = (method: string, path: string): string =>
  method +
  path
    .split("/")
    .filter((segment) => segment !== "")
    .map((segment) => (segment.startsWith("{") ? `By_${segment.slice(1, -1)}` : segment))
    .join("_")
    .replace(/(^|[^A-Za-z0-9]+)([A-Za-z0-9]?)/g, (_, __, letter: string) => letter.toUpperCase());

function succeeded(method: string, responses: Operation["responses"]): NonNullable<Operation["responses"]> {
  const own = Object.entries(responses ?? {}).map(([status, response]) => {
    // For an empty answer the generator writes a schema where a media type belongs.
    const content = "content" in response ? response.content : undefined;
    const good = content && Object.keys(content).every((type) => type.includes("/"));
    return [status, good ? response : { description: description(response) }] as const;
  });
  if (own.length > 0) return Object.fromEntries(own);
  return { [method === "delete" ? "204" : "2XX"]: { description: "Done." } };
}

const description = (response: object): string =>
  "description" in response && typeof response.description === "string" ? response.description : "Done.";

function refusals(
  policy: Policy,
  { withBody, named, wording }: { withBody: boolean; named: boolean; wording: string },
): NonNullable<Operation["responses"]> {
  const statuses = [400, 429, 500, 503];
  if (policy === "key" || policy === "hook") statuses.push(401, 403);
  if (named) statuses.push(404);
  if (withBody) statuses.push(409, 413, 415);
  return Object.fromEntries(
    statuses.sort().map((status) => [status, { $ref: `#/components/responses/${wording}${nameOf(status)}` }]),
  );
}

const nameOf = (status: number): string => wireCode(errorCodes.find((code) => statusOf(code) === status)!);

const errorResponses = (wording: ErrorWording | "", schema: string) =>
  Object.fromEntries(
    errorCodes.map((code) => [
      `${wording}${wireCode(code)}`,
      {
        description: `${statusOf(code)}: ${code.replaceAll("_", " ")}.`,
        content: { "application/json": { schema: { $ref: `#/components/schemas/${schema}` } } },
      },
    ]),
  );

const FAULT_SCHEMA = {
  type: "object",
  required: ["field", "expected", "received"],
  properties: { field: { type: "string" }, expected: { type: "string" }, received: { type: "string" } },
};

const OR_NULL = { type: ["string", "null"] };
const OPENAI_ERROR_SCHEMA = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: { message: { type: "string" }, type: { type: "string" }, param: OR_NULL, code: OR_NULL },
    },
  },
};

const ERROR_SCHEMA = {
  type: "object",
  required: ["error"],
  properties: {
    success: { const: false, description: "On incoming webhooks only." },
    error: {
      type: "object",
      required: ["code", "message", "request_id"],
      properties: {
        code: { type: "string", enum: errorCodes.map(wireCode) },
        message: { type: "string" },
        hint: { type: "string" },
        details: { ...FAULT_SCHEMA, description: "The first fault." },
        faults: { type: "array", items: FAULT_SCHEMA },
        request_id: { type: "string" },
      },
    },
  },
};

const SECURITY_SCHEMES = {
  api_key: { type: "http", scheme: "bearer", description: "An API key of the workspace." },
  hook_token: {
    type: "apiKey",
    in: "query",
    name: "token",
    description: "The token of an incoming webhook.",
  },
  hook_bearer: { type: "http", scheme: "bearer", description: "The token of an incoming webhook." },
  hook_basic: { type: "http", scheme: "basic", description: "The token of an incoming webhook as password." },
};

// A list of alternatives; an empty one says that no credentials are needed.
const SECURITY: Partial<Record<Policy, Record<string, string[]>[]>> = {
  public: [],
  anonymous: [],
  hook: [{ hook_token: [] }, { hook_bearer: [] }, { hook_basic: [] }],
};
