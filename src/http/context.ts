import type { Server } from "bun";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { ErrorWording } from "./errors.ts";
import type { Route } from "./routes.ts";

/** Whom a key speaks for; the shape a key's look-up answers. */
export type Caller = { key_id: string; workspace_id: string; project_id: string };

export type AnyServer = Server<unknown>;

/** `form`: fields by name, urlencoded or multipart. */
export type BodyKind = "json" | "form" | "text";

/** What every answer carries besides its request's id. */
export const EVERY_ANSWER = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
};

/** What the gate learned about a request before any handler ran. */
export class RequestContext {
  /** The address's route; undefined where none matched. */
  route: Route | undefined;
  /** The address is one of the incoming webhooks: its errors say `"success":false`. */
  hook = false;
  caller: Caller | undefined;
  /** The parsed body; undefined where none was sent. */
  body: unknown;
  /** The body's text; its UTF-8 bytes are the sent bytes, unless a route of any media type took others. */
  raw = "";
  /** What the body is by its media type; undefined where none was sent. */
  kind: BodyKind | undefined;
  /** The body's bytes exactly as sent: what a signature was made over. Undefined where none was sent. */
  sent: Uint8Array | undefined;
  /** The Host that was asked for, once it is known to be one. */
  host = "";
  /** Bytes of the body. */
  bytes = 0;
  /** The app has taken `headers` over into its answer. */
  dressed = false;
  /** The program's time, for what is put on record of the request. */
  clock: Clock = systemClock;
  #headers: Record<string, string> | undefined;
  #ip: string | undefined;
  #path: string | undefined;

  constructor(
    readonly request_id: string,
    /** Milliseconds, monotonic. */
    readonly started: number,
    private readonly request: Request,
    private readonly server: AnyServer | undefined,
    private readonly address: (request: Request, server: AnyServer | undefined) => string,
  ) {}

  /** What the answer carries, whoever makes it. */
  get headers(): Record<string, string> {
    this.#headers ??= { "x-request-id": this.request_id, ...EVERY_ANSWER };
    return this.#headers;
  }

  /** Nothing was added to what every answer carries. */
  get isPlain(): boolean {
    return this.#headers === undefined;
  }

  /** The client's address in canonical form, behind trusted proxies the one they name; "" if it is gone. */
  get ip(): string {
    this.#ip ??= this.address(this.request, this.server);
    return this.#ip;
  }

  get wording(): ErrorWording | undefined {
    return this.route?.errors;
  }

  /** As the client sent it: a handler sees GET where it is HEAD. */
  get method(): string {
    return this.request.method;
  }

  get path(): string {
    this.#path ??= pathOf(this.request.url);
    return this.#path;
  }

  /** Lifts the idle timeout: a stream may be silent for longer than a request may. */
  keepOpen(): void {
    this.server?.timeout(this.request, 0);
  }
}

/** The path of an absolute http(s) address, without query. The gate has refused hosts below 4 characters. */
export function pathOf(url: string): string {
  const start = url.indexOf("/", 8);
  const end = url.indexOf("?", start);
  return end === -1 ? url.slice(start) : url.slice(start, end);
}

/** Its query without the question mark, "" where there is none. */
export function queryOf(url: string): string {
  const start = url.indexOf("?", url.indexOf("/", 8));
  return start === -1 ? "" : url.slice(start + 1);
}

/** Whether errors of a path are worded for senders of webhooks, known before it is known what stands there. */
export const isHookPath = (path: string): boolean => path.startsWith("/webhooks/") || path === "/webhooks";

const contexts = new WeakMap<Request, RequestContext>();

export const remember = (request: Request, context: RequestContext): void => {
  contexts.set(request, context);
};

/** What the gate put on record for a request; undefined for a request that did not come through it. */
export const findContext = (request: Request): RequestContext | undefined => contexts.get(request);

/** The same for handlers, which only ever see requests that came through the gate. */
export function contextOf(request: Request): RequestContext {
  const context = contexts.get(request);
  if (!context) throw new Error("this request did not come through the gate");
  return context;
}
