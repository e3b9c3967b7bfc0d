import { connect } from "node:net";
import { Elysia } from "elysia";
import Type from "typebox";
import { type AccessLog, createAccessLog } from "../../src/http/access-log.ts";
import { answerWith, created, noContent } from "../../src/http/answers.ts";
import { contextOf } from "../../src/http/context.ts";
import { bodies, edge } from "../../src/http/edge.ts";
import { createGate, type GateDeps, type ServiceState } from "../../src/http/gate.ts";
import type { HealthCheck } from "../../src/http/health.ts";
import { createLimiter } from "../../src/http/limiter.ts";
import { listen } from "../../src/http/listen.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { openapiDocument, openapiRoutes } from "../../src/http/openapi.ts";
import { operationsRoutes } from "../../src/http/operations-routes.ts";
import { page } from "../../src/http/page.ts";
import { policies } from "../../src/http/policy.ts";
import { conflict } from "../../src/lib/errors.ts";
import { createLog } from "../../src/lib/log.ts";
import { json, query } from "../../src/lib/schema.ts";
import { TestClock } from "../helpers/clock.ts";

const Thing = json(
  Type.Object({ name: Type.String(), size: Type.Optional(Type.Integer()) }, { additionalProperties: false }),
);
const Things = query(
  Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
  }),
);

const things = () =>
  new Elysia({ prefix: "/things" })
    .use(policies)
    .get("/", ({ query, request, set }) => page(set, request, { items: [1], total: 7, ...query }), {
      policy: "key",
      query: Things,
      detail: { summary: "List things", tags: ["things"] },
    })
    .post("/", ({ body, set }) => created(set, body), { policy: "key", body: Thing })
    .get("/:id", ({ params, caller }) => ({ id: params.id, caller }), { policy: "key" })
    .delete("/:id", ({ set }) => noContent(set), { policy: "key" })
    .post("/:id/start", ({ request }) => ({ raw: contextOf(request).raw }), { policy: "key" })
    .get("/anonymous/:id", ({ params }) => ({ id: params.id }), { policy: "anonymous" })
    .get("/broken", () => broken(), { policy: "public" })
    .get("/late", ({ request }) => late(request), { policy: "public" });

const hooks = () =>
  new Elysia({ prefix: "/hooks" })
    .use(policies)
    .post("/:id", ({ body, set }) => answerWith(set, { status: 202, body, replayed: true }), {
      policy: "hook",
      body: Thing,
    })
    .get("/conflict", () => refuse(), { policy: "hook" })
    .all("/any/:path/trigger", ({ request, body }) => anything(request, body), {
      policy: "hook",
      detail: { "x-media": ["*/*"], "x-secret-path": true } as object,
    })
    .post("/form", ({ body }) => ({ body }), {
      policy: "hook",
      detail: { "x-media": ["application/x-www-form-urlencoded", "multipart/form-data"] } as object,
    })
    .post("/text", ({ body }) => ({ body }), {
      policy: "hook",
      detail: {
        "x-media": ["text/plain"],
        "x-query": [{ name: "wait", in: "query", required: false, schema: { type: "integer" } }],
      } as object,
    });

function anything(request: Request, body: unknown) {
  const { raw, sent } = contextOf(request);
  return { method: request.method, body, raw, sent: [...(sent ?? [])] };
}

function broken(): never {
  throw new Error("a secret path: /etc/errand; Bearer erk_abcdefgh12345678");
}

function refuse(): never {
  throw conflict("Already started.");
}

function late(request: Request): Response {
  contextOf(request).keepOpen();
  return new Response("x", { headers: { "cache-control": "max-age=60" } });
}

export const CALLER = { key_id: "k1", workspace_id: "w1", project_id: "p1" };
export const KEY = { authorization: "Bearer good" };
export const JSON_TYPE = { "content-type": "application/json" };

type Options = Partial<Omit<GateDeps, "limiter" | "anonymousLimiter" | "accessLog">> & {
  quota?: number;
  anonymousQuota?: number;
  checks?: HealthCheck[];
  accessLog?: boolean;
  metricsPolicy?: "public" | "key";
};

/** A small app behind the real gate and a real server on a free loopback port. */
export function setup(options: Options = {}) {
  const clock = new TestClock();
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    format: "json",
    clock,
    write: (text) => logged.push(text),
    terminal: false,
  });
  const metrics = createMetrics();
  const authenticate = async (token: string) => (token === "good" ? CALLER : undefined);
  let state: ServiceState = "ready";
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate }))
    .use(bodies)
    .use(
      operationsRoutes({
        checks: options.checks ?? [],
        metrics,
        metricsPolicy: options.metricsPolicy ?? "public",
      }),
    )
    .use(openapiRoutes({ openapi: () => openapi() }))
    .use(things())
    .use(hooks());
  const openapi = openapiDocument(() => app, { title: "Errand", version: "1.0.0" });
  const accessLog: AccessLog | undefined = options.accessLog ? createAccessLog(log) : undefined;
  const limiter = options.quota ? createLimiter({ name: "ip", quota: options.quota, clock }) : undefined;
  const anonymousLimiter = options.anonymousQuota
    ? createLimiter({ name: "anonymous", quota: options.anonymousQuota, clock })
    : undefined;
  const gate = createGate({
    app,
    authenticate,
    log,
    metrics,
    maxBodyBytes: 64 * 1024,
    state: () => state,
    ...options,
    limiter,
    anonymousLimiter,
    accessLog,
  });
  const server = listen({ gate, hostname: "127.0.0.1", port: 0, log });
  const base = `http://127.0.0.1:${server.port}`;
  return {
    app,
    clock,
    metrics,
    openapi,
    server,
    base,
    setState: (next: ServiceState) => {
      state = next;
    },
    logged: () => {
      log.flush();
      return logged.join("");
    },
    ask: (path: string, init?: RequestInit) => fetch(base + path, init),
    post: (path: string, body: BodyInit, headers: Record<string, string> = {}) =>
      fetch(base + path, { method: "POST", body, headers: { ...KEY, ...JSON_TYPE, ...headers } }),
    raw: (text: string | Uint8Array) => raw(server.port, text),
    close: () => server.stop(true),
  };
}

export type RawAnswer = { status: number; head: string; body: string };

/** Sends bytes as they are and reads one answer: for what a client library would not send. */
export function raw(port: number, sent: string | Uint8Array): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    // One character a byte, so that Content-Length counts them.
    let text = "";
    const end = () => {
      const split = text.indexOf("\r\n\r\n");
      const head = text.slice(0, split).toLowerCase();
      const body = Buffer.from(text.slice(split + 4), "latin1").toString();
      resolve({ status: Number(head.split(" ")[1]), head, body });
      socket.destroy();
    };
    socket.on("data", (data) => {
      text += data.toString("latin1");
      const split = text.indexOf("\r\n\r\n");
      const length = /content-length: (\d+)/i.exec(text)?.[1] ?? "0";
      const bodiless = typeof sent === "string" && sent.startsWith("HEAD");
      if (split !== -1 && (bodiless || text.length >= split + 4 + Number(length))) end();
    });
    socket.on("close", end);
    socket.on("error", reject);
    socket.write(sent);
  });
}
