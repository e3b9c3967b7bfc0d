import type { AppError } from "../lib/errors.ts";
import type { RequestContext } from "./context.ts";
import type { ErrorWording } from "./errors.ts";

/**
 * Who may call a route. `key`: an API key. `public`: anyone. `anonymous`: anyone, under a stricter limit.
 * `hook`: its own service authenticates. Nothing is reachable without one of them.
 */
export type Policy = "key" | "public" | "anonymous" | "hook";

export const POLICIES: readonly Policy[] = ["key", "public", "anonymous", "hook"];

/** What the gate knows of a route; `detail` of the route file gives all but method, template and body. */
export type Route = {
  method: string;
  /** The address with its parameters unfilled: `/api/agents/:id`. */
  template: string;
  policy: Policy;
  /** The route has a schema for its body: an empty one is refused. */
  takesBody: boolean;
  /** `x-media`: further media types a hook takes; any but JSON arrives as text, forms as an object. */
  media: readonly string[];
  /** `x-exempt`: no limiter, and answered while starting and draining (health). */
  exempt: boolean;
  /** `x-secret-path`: the path is itself a credential; the log shows the template in its place. */
  secretPath: boolean;
  /** Answers in the app's place, where the way through the framework costs more than the work. */
  direct?: Direct;
  /** Asked where the body is refused: whether its sender may be told so. */
  recognise?: Recognise | undefined;
  /** `x-errors`: whose clients read this route's errors, where they are not our own. */
  errors?: ErrorWording | undefined;
  /** `x-max-body`: bytes that this route takes where the operator's limit is below. */
  maxBody: number;
};

/** What a handler answers with when it chooses the status itself; `body` is sent as JSON. */
export type Answer = { status: number; body: unknown; replayed?: boolean };

/** Takes the address's last parameter and a request whose body the gate has read. */
export type Direct = (id: string, request: Request, context: RequestContext) => Promise<Answer | Response>;

/**
 * Throws what a caller hears who is not known, before a word about a body that was refused; what was read of it is
 * in the context.
 */
export type Recognise = (request: Request, context: RequestContext, refusal: AppError) => Promise<void>;

/** The part of an Elysia app the gate reads. */
export type Routable = {
  routes: {
    method: string;
    path: string;
    hooks?: { body?: unknown; detail?: object; standaloneValidator?: unknown };
  }[];
};

/**
 * Every route of an app with its policy; `direct` and `recognise` by "METHOD template". Throws at start-up on one
 * that declares no policy.
 */
export function routesOf(
  app: Routable,
  direct: Record<string, Direct> = {},
  recognise: Record<string, Recognise> = {},
): Route[] {
  return app.routes.map(({ method, path, hooks }) => {
    const detail = (hooks?.detail ?? {}) as Record<string, unknown>;
    const policy = detail["x-policy"];
    if (!POLICIES.includes(policy as Policy)) throw new Error(`${method} ${path} declares no policy`);
    return {
      method,
      template: path,
      policy: policy as Policy,
      takesBody: hooks?.body !== undefined,
      media: (detail["x-media"] as string[] | undefined) ?? [],
      exempt: detail["x-exempt"] === true,
      secretPath: detail["x-secret-path"] === true,
      direct: direct[`${method} ${path}`],
      recognise: recognise[`${method} ${path}`],
      errors: detail["x-errors"] as ErrorWording | undefined,
      maxBody: typeof detail["x-max-body"] === "number" ? detail["x-max-body"] : 0,
    };
  });
}

/** `route`, or what to say instead: the methods this address takes (none: there is no such address). */
export type Match = { route?: Route; allow: string[]; hook: boolean };

const MOST_KNOWN = 1_000;
const LONGEST_KNOWN = 200;

type Node = { fixed: Map<string, Node>; param?: Node; rest?: Route; route?: Route };

const emptyNode = (): Node => ({ fixed: new Map() });

/**
 * Finds routes as Elysia does: one tree a method, then the tree of "ALL"; in a tree a fixed segment goes
 * before a parameter, a parameter before `*`. The policies ask again in the handler, so a difference
 * between the two could not open a door.
 */
export class Router {
  readonly #trees = new Map<string, Node>();
  // Few addresses are asked for much, and most of them many times. What fills it is not worth an order of use.
  readonly #known = new Map<string, Route>();

  constructor(routes: Route[]) {
    for (const route of routes) this.#add(route);
  }

  match(method: string, path: string): Match {
    const asked = `${method} ${path}`;
    const known = this.#known.get(asked);
    if (known) return { route: known, allow: [], hook: known.policy === "hook" };
    const at = path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
    const own =
      this.#find(method, at) ?? this.#find("ALL", at) ?? (method === "HEAD" && this.#find("GET", at));
    if (own) {
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      if (asked.length <= LONGEST_KNOWN) this.#known.set(asked, own);
      return { route: own, allow: [], hook: own.policy === "hook" };
    }
    const allow: string[] = [];
    let hook = false;
    for (const name of this.#trees.keys()) {
      const other = this.#find(name, at);
      if (!other) continue;
      allow.push(...(name === "GET" ? ["GET", "HEAD"] : [name]));
      hook ||= other.policy === "hook";
    }
    return { allow: [...new Set(allow)].sort(), hook };
  }

  #find(method: string, path: string): Route | undefined {
    const tree = this.#trees.get(method);
    return tree && walk(tree, path, 1);
  }

  #add(route: Route): void {
    let node = this.#trees.get(route.method);
    if (!node) {
      node = emptyNode();
      this.#trees.set(route.method, node);
    }
    for (const segment of route.template.split("/").slice(1)) {
      if (segment.endsWith("?")) throw new Error(`${route.template}: optional parameters are not supported`);
      if (segment === "") continue;
      if (segment === "*") {
        node.rest = route;
        return;
      }
      let next: Node | undefined = segment.startsWith(":") ? node.param : node.fixed.get(segment);
      if (!next) {
        next = emptyNode();
        if (segment.startsWith(":")) node.param = next;
        else node.fixed.set(segment, next);
      }
      node = next;
    }
    node.route = route;
  }
}

function walk(node: Node, path: string, from: number): Route | undefined {
  if (from >= path.length) return node.route;
  const slash = path.indexOf("/", from);
  const end = slash === -1 ? path.length : slash;
  const fixed = node.fixed.get(path.slice(from, end));
  const found = fixed && walk(fixed, path, end + 1);
  if (found) return found;
  return (node.param && end > from && walk(node.param, path, end + 1)) || node.rest;
}
