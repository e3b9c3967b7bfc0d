import dns from "node:dns";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import type { LookupFunction } from "node:net";
import { networkInterfaces } from "node:os";
import { LRUCache } from "lru-cache";
import type { Fault } from "../lib/errors.ts";
import { chunksOf, collect } from "./body.ts";
import { EgressError, toEgressError } from "./errors.ts";
import { blocked, createGuard, type Target, targetOf } from "./guard.ts";
import { firstHop, type Hop, locationOf, maySendAgain, nextHop } from "./hop.ts";
import { Limit } from "./limit.ts";
import { openPool, type Pool } from "./pool.ts";

export { EgressError, type EgressErrorClass } from "./errors.ts";

export type EgressRequest = {
  method: string;
  url: string;
  /** Framing headers (host, content-length, connection, ...) are ours; given ones are dropped. */
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** From the start to the last byte, redirects included. */
  timeoutMs: number;
  /** After decompression. */
  maxBytes: number;
  /** How many to follow; past them, the redirect itself is the answer. Default 0. */
  redirects?: number;
  /** The operator named this target in the configuration: private addresses are fine. */
  trusted?: boolean;
  signal?: AbortSignal;
};

export type EgressAnswer = {
  status: number;
  headers: Record<string, string>;
  body: Uint8Array;
  truncated: boolean;
  durationMs: number;
};

export type EgressStream = Omit<EgressAnswer, "body" | "truncated"> & { body: AsyncIterable<Uint8Array> };

/**
 * The one door out: deliveries, nodes, models and images all leave by it.
 *
 * Every address is checked after resolving and the connection goes to the checked address. Built on
 * node:http(s), which unlike `fetch` has no cap of requests in flight, follows no redirects, opens no
 * files and asks no proxy named in the environment.
 */
export type Egress = {
  /** Any status is an answer; throws EgressError when there is none. */
  request(request: EgressRequest): Promise<EgressAnswer>;
  /** Resolves with the head; reading past `maxBytes` throws. */
  stream(request: EgressRequest): Promise<EgressStream>;
  /** What can be said of a URL when it is stored; names are resolved only when it is used. */
  check(url: string): Fault | undefined;
  /**
   * The checked address that a connection of another protocol (SMTP) may be opened to, under the same rules.
   * Throws EgressError.
   */
  locate(server: { host: string; port: number; trusted?: boolean }): Promise<string>;
  close(): void;
};

type Addresses = { address: string; family: number }[];
export type Resolve = (host: string) => Promise<Addresses>;

const resolveByDns: Resolve = (host) => dns.promises.lookup(host, { all: true });

const MOST_KNOWN_TARGETS = 1_024;

export function createEgress(
  options: { allow?: string[]; egress_ips?: string[]; resolve?: Resolve } = {},
): Egress {
  const guard = createGuard(options.allow ?? []);
  const resolve = options.resolve ?? resolveByDns;
  const localAddress = ownAddress(options.egress_ips ?? []);
  const localFamily = localAddress?.includes(":") ? 6 : 4;
  // Connections are pooled by host and port alone: one that a trusted request opened past the guard must
  // never be found by another.
  const pools = { guarded: openPool(), trusted: openPool() };
  const fresh: Pool = openPool({ keepAlive: false });
  // Reading a URL and judging its host depend on nothing but the text and the configuration.
  const known = new LRUCache<string, Target>({ max: MOST_KNOWN_TARGETS });

  function allowed(text: string, trusted: boolean): Target {
    const key = trusted ? `trusted ${text}` : text;
    let target = known.get(key);
    if (!target) {
      target = targetOf(text);
      guard.literal(target, trusted);
      known.set(key, target);
    }
    return target;
  }

  function lookupFor(target: Target, trusted: boolean): LookupFunction {
    return (host, { all }, callback) => {
      const refuse = (error: Error) => callback(error, "");
      resolve(host).then((found) => {
        const usable = localAddress ? found.filter(({ family }) => family === localFamily) : found;
        const first = usable[0];
        if (!found.every(({ address }) => guard.permits(target, address, trusted))) {
          refuse(blocked(`${host} leads to an address that is not public`));
        } else if (!first) refuse(new EgressError("dns_error", `${host} has no usable address`));
        else if (all) callback(null, usable);
        else callback(null, first.address, first.family);
      }, refuse);
    };
  }

  function send(hop: Hop, limit: Limit, through: Pool): Promise<IncomingMessage> {
    const { target, trusted } = hop;
    return new Promise((resolve, reject) => {
      const request = (target.secure ? https : http).request({
        agent: target.secure ? through.https : through.http,
        host: target.host,
        port: target.port,
        path: target.path,
        method: hop.method,
        headers: hop.headers,
        lookup: lookupFor(target, trusted),
        localAddress,
      });
      request.once("response", resolve);
      request.on("error", (error) => {
        if (request.reusedSocket && maySendAgain(hop)) reject(new StaleConnection(toEgressError(error)));
        else reject(toEgressError(error));
      });
      limit.onEnd((error) => {
        reject(error);
        request.destroy(error);
      });
      request.end(hop.body);
    });
  }

  async function sendOnce(hop: Hop, limit: Limit): Promise<IncomingMessage> {
    try {
      return await send(hop, limit, hop.trusted ? pools.trusted : pools.guarded);
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw error;
      if (limit.error || error.cause.class !== "connection_reset") throw error.cause;
      // The receiver closed an idle connection of ours just as this request took it.
      return send(hop, limit, fresh);
    }
  }

  async function open(request: EgressRequest, limit: Limit): Promise<IncomingMessage> {
    let hop = firstHop(request, allowed(request.url, request.trusted ?? false));
    for (let left = request.redirects ?? 0; ; left--) {
      const message = await sendOnce(hop, limit);
      const location = left > 0 ? locationOf(hop, message) : undefined;
      if (!location) return message;
      message.on("error", () => {}).destroy();
      // The operator vouched for the target that was named, not for where it points.
      const trusted = hop.trusted && new URL(location).origin === hop.target.url.origin;
      hop = nextHop(hop, message.statusCode ?? 0, allowed(location, trusted), trusted);
    }
  }

  return {
    async request(request) {
      const started = performance.now();
      const limit = new Limit(request);
      try {
        const message = await open(request, limit);
        const { body, truncated } = await collect(message, request.maxBytes);
        if (limit.error) throw limit.error; // without a length, a body that was cut off looks ended
        return { ...headOf(message), body, truncated, durationMs: performance.now() - started };
      } catch (error) {
        throw limit.error ?? toEgressError(error);
      } finally {
        limit.release();
      }
    },

    async stream(request) {
      const started = performance.now();
      const limit = new Limit(request);
      try {
        const message = await open(request, limit);
        message.on("error", () => {}); // it may break before the first read, which then tells
        const body = untilEnd(message, request.maxBytes, limit);
        return { ...headOf(message), body, durationMs: performance.now() - started };
      } catch (error) {
        limit.release();
        throw limit.error ?? toEgressError(error);
      }
    },

    check(url) {
      try {
        guard.literal(targetOf(url));
        return undefined;
      } catch (error) {
        const { message } = error as EgressError;
        return { field: "url", expected: "an http or https URL of a public host", received: message };
      }
    },

    async locate({ host, port, trusted = false }) {
      const bare = host.includes(":") ? `[${host}]` : host;
      const target = allowed(`https://${bare}:${port}/`, trusted);
      if (target.literal) return target.host;
      return new Promise((resolve, reject) =>
        lookupFor(target, trusted)(target.host, { all: false }, (error, address) => {
          if (error) reject(toEgressError(error));
          else resolve(address as string);
        }),
      );
    },

    close() {
      for (const pool of [pools.guarded, pools.trusted, fresh]) pool.close();
    },
  };
}

class StaleConnection extends Error {
  constructor(override readonly cause: EgressError) {
    super(cause.message);
  }
}

async function* untilEnd(message: IncomingMessage, max: number, limit: Limit): AsyncGenerator<Uint8Array> {
  try {
    yield* chunksOf(message, max);
    if (limit.error) throw limit.error;
  } catch (error) {
    throw limit.error ?? error;
  } finally {
    limit.release();
  }
}

function headOf(message: IncomingMessage): { status: number; headers: Record<string, string> } {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(message.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return { status: message.statusCode ?? 0, headers };
}

// Behind a translator the published addresses are not ours to bind; then the system chooses.
function ownAddress(candidates: string[]): string | undefined {
  if (candidates.length === 0) return undefined;
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((each) => each.address)),
  );
  return candidates.find((address) => own.has(address));
}
