import type { Clock } from "../lib/clock.ts";
import { AppError, invalid, invalidField, rateLimited, unauthorized, unavailable } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import { createStep } from "../lib/in-step.ts";
import type { Log } from "../lib/log.ts";
import type { AccessLog } from "./access-log.ts";
import { type Authenticate, bearerToken } from "./authorization.ts";
import { readBody } from "./body.ts";
import { clientAddress } from "./client-address.ts";
import { type AnyServer, EVERY_ANSWER, isHookPath, RequestContext, remember } from "./context.ts";
import { errorResponse } from "./errors.ts";
import { type Limiter, limitHeaders, type Verdict } from "./limiter.ts";
import type { Metrics } from "./metrics.ts";
import {
  type Answer,
  type Direct,
  type Match,
  type Recognise,
  type Routable,
  type Route,
  Router,
  routesOf,
} from "./routes.ts";

export type ServiceState = "ready" | "draining";

export type GateDeps = {
  app: Routable & { fetch(request: Request): Response | Promise<Response> };
  /** Handlers that answer in the app's place, by "METHOD template". */
  direct?: Record<string, Direct>;
  /** Who may be told what is wrong with a body, where a service authenticates: by "METHOD template". */
  recognise?: Record<string, Recognise>;
  authenticate: Authenticate;
  log: Log;
  metrics: Metrics;
  /** Counts every request that is not exempt. */
  limiter?: Limiter;
  /** Counts requests of `anonymous` routes on top of that. */
  anonymousLimiter?: Limiter;
  /** Addresses and CIDRs whose X-Forwarded-For is believed. */
  trustedProxies?: readonly string[];
  maxBodyBytes: number;
  accessLog?: AccessLog;
  /** Told the Host of every request that was authorised and went well. */
  hosts?: (host: string) => void;
  /** Anything but `ready` answers 503 on all routes that are not exempt. */
  state?: () => ServiceState;
  /** Milliseconds, monotonic. */
  elapsed?: () => number;
  /** The program's time; the system's unless given. */
  clock?: Clock;
};

export type Gate = (request: Request, server?: AnyServer) => Promise<Response>;

/**
 * Stands in front of the app. In this order: request id, Host, canonical path, route, state, limits, method,
 * credentials, body; only then does the app see the request. So a caller without rights learns nothing
 * from validation, and no handler meets a body that would hurt it.
 * Every answer carries `x-request-id` and the security headers. Throws at once if a route has no policy.
 */
export function createGate(deps: GateDeps): Gate {
  const { app, authenticate, log, metrics, limiter, anonymousLimiter, accessLog, maxBodyBytes } = deps;
  const router = new Router(routesOf(app, deps.direct, deps.recognise));
  const address = clientAddress(deps.trustedProxies ?? []);
  const state = deps.state ?? (() => "ready" as const);
  const elapsed = deps.elapsed ?? (() => performance.now());

  function countRequest(
    context: RequestContext,
    route: Route | undefined,
  ): Record<string, string> | undefined {
    if (route?.exempt) return undefined;
    const results: { limiter: Limiter; verdict: Verdict }[] = [];
    if (limiter) results.push({ limiter, verdict: limiter.take(context.ip) });
    if (
      anonymousLimiter &&
      route?.policy === "anonymous" &&
      results.every(({ verdict }) => verdict.allowed)
    ) {
      results.push({ limiter: anonymousLimiter, verdict: anonymousLimiter.take(context.ip) });
    }
    return results.length === 0 ? undefined : limitHeaders(results);
  }

  async function admit(request: Request, context: RequestContext): Promise<Response> {
    const { method, headers } = request;
    const { path } = context;
    context.hook = isHookPath(path);
    context.host = checkHost(headers.get("host"));
    checkPath(path);
    const { route, allow, hook } = routeOf(router, method, path);
    context.route = route;
    context.hook ||= hook;
    if (!route?.exempt) refuseUnlessReady(state());

    const limits = countRequest(context, route);
    if (limits) {
      Object.assign(context.headers, limits);
      if (limits["retry-after"] !== undefined) throw rateLimited(limits["retry-after"]);
    }
    if (!route) {
      if (allow.length === 0) throw new AppError("not_found", "No such address.");
      if (method === "OPTIONS")
        return new Response(null, { status: 204, headers: { allow: allow.join(", ") } });
      throw notAllowed(method, allow);
    }

    if (route.policy === "key") {
      const header = headers.get("authorization");
      const token = bearerToken(header);
      const caller = token === undefined ? undefined : await authenticate(token);
      if (!caller) throw header === null ? unauthorized() : badKey();
      context.caller = caller;
    }
    if (method === "HEAD") return asHead(request, context);
    // A handler of any method answers GET by the app.
    if (method === "GET")
      return route.method === "GET" ? whole(route, request, context) : byApp(request, context);
    try {
      await readBody(request, route, context, Math.max(maxBodyBytes, route.maxBody));
    } catch (error) {
      if (error instanceof AppError) {
        // Whoever is answered what: nobody is listened to for longer than the refusal says.
        const connection = error.extra.headers?.["connection"];
        if (connection !== undefined) context.headers["connection"] = connection;
        await route.recognise?.(request, context, error);
      }
      throw error;
    }
    // Awaited: an async function that returns a promise hands it on two turns of the queue later.
    return await whole(route, request, context);
  }

  /** The answer to a request of which there is nothing left to check. */
  async function whole(route: Route, request: Request, context: RequestContext): Promise<Response> {
    if (!route.direct) return byApp(request, context);
    const answer = await route.direct(lastSegment(context.path), request, context);
    return answer instanceof Response ? answer : dressed(answer, context);
  }

  /** Its handlers find the context by the request; those who answer in its place are given it. */
  function byApp(request: Request, context: RequestContext): Response | Promise<Response> {
    remember(request, context);
    return app.fetch(request);
  }

  // The app knows GET alone; the answer is the same, its length included, without its body.
  async function asHead(request: Request, context: RequestContext): Promise<Response> {
    const twin = new Request(request.url, {
      method: "GET",
      headers: request.headers,
      signal: request.signal,
    });
    remember(twin, context);
    const answer = await app.fetch(twin);
    const { status } = answer;
    const headers = new Headers(answer.headers);
    if (headers.get("content-type")?.startsWith("text/event-stream")) {
      // Its length is not known before its end; a stream with nothing in it says as much.
      void answer.body?.cancel().catch(() => {});
      return new Response(new ReadableStream({ start: (stream) => stream.close() }), { status, headers });
    }
    if (answer.body) headers.set("content-length", String((await answer.arrayBuffer()).byteLength));
    return new Response(null, { status, headers });
  }

  const inStep = createStep();

  return async (request, server) => {
    const began = elapsed();
    await inStep();
    const given = request.headers.get("x-request-id");
    const id = given !== null && REQUEST_ID.test(given) ? given : newId();
    const context = new RequestContext(id, began, request, server, address);
    if (deps.clock) context.clock = deps.clock;
    let response: Response;
    try {
      response = await admit(request, context);
    } catch (error) {
      response = errorResponse(error, context, log);
    }
    // The app puts them into the answers it makes, where they cost next to nothing.
    if (!context.dressed) {
      const { headers } = response;
      for (const name in context.headers) if (!headers.has(name)) headers.set(name, context.headers[name]!);
    }

    // Strangers call by any name; only those who were let in say how this server is known.
    if (deps.hosts && response.status < 400 && isGuarded(context.route)) deps.hosts(context.host);
    const ms = elapsed() - context.started;
    metrics.observe(context.route, request.method, response.status, ms / 1_000);
    accessLog?.(context, request.method, response.status, ms);
    return response;
  };
}

const isGuarded = (route: Route | undefined): boolean => route?.policy === "key" || route?.policy === "hook";

function dressed({ status, body, replayed }: Answer, context: RequestContext): Response {
  const headers = context.isPlain && !replayed ? plainHeaders(context) : fullHeaders(context, replayed);
  context.dressed = true;
  return new Response(JSON.stringify(body), { status, headers });
}

const plain = new Headers({ ...EVERY_ANSWER, "content-type": "application/json" });

/** The same one each time: an answer takes a copy of it, which costs half of what an object by names does. */
function plainHeaders({ request_id }: RequestContext): Headers {
  plain.set("x-request-id", request_id);
  return plain;
}

const fullHeaders = ({ headers }: RequestContext, replayed?: boolean): Record<string, string> => ({
  ...headers,
  "content-type": "application/json",
  ...(replayed ? { "idempotent-replay": "true" } : {}),
});

function lastSegment(path: string): string {
  const end = path.endsWith("/") ? path.length - 1 : path.length;
  const segment = path.slice(path.lastIndexOf("/", end - 1) + 1, end);
  return segment.includes("%") ? decodeURIComponent(segment) : segment;
}

const REQUEST_ID = /^[\w.~-]{1,128}$/;

// Below 4 characters Elysia finds the path at the wrong place; two Host headers arrive joined by a comma.
const HOST = /^(?=.{4,255}$)(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

function checkHost(host: string | null): string {
  if (host === null || !HOST.test(host))
    throw invalidField("host", "one host name", host === null ? "nothing" : "another form");
  return host;
}

// Literal and encoded dot segments never arrive: the server resolves them before the gate and the app,
// which both see the result.
const TROUBLE = /\/\/|[\\#]|%(?![0-9a-f]{2})|%(?:[01][0-9a-f]|7f|2f|5c|2e)/i;

function checkPath(path: string): void {
  if (!path.includes("%") && !path.includes("//") && !path.includes("#") && !path.includes("\\")) return;
  let good = !TROUBLE.test(path);
  if (good) {
    try {
      decodeURIComponent(path);
    } catch {
      good = false;
    }
  }
  if (!good) throw invalid([{ field: "path", expected: "a canonical path", received: "another form" }]);
}

function routeOf(router: Router, method: string, path: string): Match {
  const match = router.match(method, path);
  // No handler is meant to echo or to tunnel, not even one that takes any method.
  if (!match.route || (method !== "TRACE" && method !== "CONNECT")) return match;
  return { allow: ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"], hook: match.hook };
}

function refuseUnlessReady(state: ServiceState): void {
  if (state === "draining") throw unavailable("The service is shutting down.", 5);
}

const notAllowed = (method: string, allow: string[]) =>
  new AppError("method_not_allowed", `This address takes ${allow.join(", ")}.`, {
    faults: [{ field: "method", expected: `one of ${allow.join(", ")}`, received: method }],
    headers: { allow: allow.join(", ") },
  });

const badKey = () =>
  new AppError("unauthorized", "A valid API key is required.", {
    headers: { "www-authenticate": 'Bearer error="invalid_token"' },
  });
