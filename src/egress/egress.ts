import dns from "node:dns";
import { networkInterfaces } from "node:os";
import { LRUCache } from "lru-cache";
import { Beat } from "../lib/beat.ts";
import type { Cancel } from "../lib/cancel.ts";
import { systemClock } from "../lib/clock.ts";
import type { Fault } from "../lib/errors.ts";
import type { Answer } from "./answer.ts";
import { chunksOf, collect, come } from "./body.ts";
import { createDial, type Resolve } from "./dial.ts";
import { type EgressError, toEgressError } from "./errors.ts";
import { createGuard, type Target, targetOf } from "./guard.ts";
import { firstHop, type Hop, locationOf, maySendAgain, nextHop } from "./hop.ts";
import { Limit } from "./limit.ts";
import { Plain } from "./plain.ts";
import { Pool } from "./pool.ts";
import { createProxy } from "./proxy.ts";
import { outgoing, StaleConnection, Wire } from "./wire.ts";

export { EgressError, type EgressErrorClass } from "./errors.ts";

export type EgressRequest = {
  method: string;
  url: string;
  /** Framing headers (host, content-length, connection, ...) are ours; given ones are dropped. */
  headers?: Record<string, string>;
  /** More of them, the same object in many requests, which nobody changes: they are looked at once. */
  alike?: Record<string, string>;
  body?: string | Uint8Array;
  /** From the start to the last byte, redirects included. */
  timeoutMs: number;
  /** After decompression. */
  maxBytes: number;
  /** How many to follow; past them, the redirect itself is the answer. Default 0. */
  redirects?: number;
  /** The operator named this target in the configuration: private addresses are fine. */
  trusted?: boolean;
  signal?: Cancel;
  /** How long the connection may take to stand, TLS included; within `timeoutMs` unless given. */
  connectMs?: number;
  /** Its answer comes word by word: while much passes, what comes within a beat is taken together. */
  trickles?: boolean;
};

export type EgressAnswer = {
  /** Where the answer is from: the address asked for, or where redirects led. */
  url: string;
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
 * Every address is checked after resolving and the connection goes to the checked address. HTTP/1.1 over
 * node's sockets: no cap of requests in flight as with `fetch`, no proxy named in the environment, no files,
 * and a quarter of what node:http costs a request.
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
  /** What streams through here; whoever reads words out of an answer counts them. */
  beat: Beat;
  close(): void;
};

const resolveByDns: Resolve = (host) => dns.promises.lookup(host, { all: true });

const MOST_KNOWN_TARGETS = 1_024;

export function createEgress(
  options: { allow?: string[]; egress_ips?: string[]; proxy?: string; resolve?: Resolve; beat?: Beat } = {},
): Egress {
  const guard = createGuard(options.allow ?? []);
  const resolve = options.resolve ?? resolveByDns;
  const beat = options.beat ?? new Beat(systemClock);
  const localAddress = ownAddress(options.egress_ips ?? []);
  const proxy = options.proxy === undefined ? undefined : createProxy(options.proxy, localAddress);
  const dial = createDial({ guard, resolve, localAddress, proxy });
  // Connections are pooled by origin alone: one that a trusted request opened past the guard must never be
  // found by another.
  const pools = { guarded: new Pool(), trusted: new Pool() };
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

  async function connect(hop: Hop, limit: Limit): Promise<Wire> {
    const { target, trusted } = hop;
    const pool = trusted ? pools.trusted : pools.guarded;
    return new Wire(target.origin, await dial.connect(hop, limit), beat, {
      ended: (wire) => pool.put(wire),
      closed: (wire) => pool.remove(wire),
    });
  }

  /** On an idle connection where there is one; on a new one where that turns out to be none any more. */
  async function open(request: EgressRequest, limit: Limit): Promise<{ answer: Answer; url: string }> {
    let hop = firstHop(request, allowed(request.url, request.trusted ?? false));
    for (let left = request.redirects ?? 0; ; left--) {
      const outward = outgoing(hop, dial.proxyHeaders(hop.target));
      const idle = (hop.trusted ? pools.trusted : pools.guarded).take(hop.target.origin);
      let answer: Answer;
      try {
        answer = await (idle ?? (await connect(hop, limit))).send(outward, limit);
      } catch (error) {
        if (!(error instanceof StaleConnection)) throw error;
        if (limit.error || !maySendAgain(hop)) throw error.cause;
        answer = await (await connect(hop, limit)).send(outward, limit);
      }
      const location = left > 0 ? locationOf(hop, answer) : undefined;
      if (!location) return { answer, url: hop.target.url.href };
      answer.body.destroy();
      // The operator vouched for the target that was named, not for where it points.
      const trusted = hop.trusted && new URL(location).origin === hop.target.origin;
      hop = nextHop(hop, answer.status, allowed(location, trusted), trusted);
    }
  }

  return {
    async request(request) {
      const started = performance.now();
      const limit = new Limit(request);
      try {
        const { answer, url } = await open(request, limit);
        const { body, truncated } =
          come(answer, request.maxBytes) ?? (await collect(answer, request.maxBytes));
        if (limit.error) throw limit.error; // without a length, a body that was cut off looks ended
        const { status, headers } = answer;
        return { url, status, headers, body, truncated, durationMs: performance.now() - started };
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
        const { answer, url } = await open(request, limit);
        const { status, headers } = answer;
        const body = untilEnd(answer, request.maxBytes, limit);
        return { url, status, headers, body, durationMs: performance.now() - started };
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
      return dial.addresses(target, trusted).then(
        ([first]) => first!,
        (error) => {
          throw toEgressError(error);
        },
      );
    },

    beat,

    close() {
      pools.guarded.close();
      pools.trusted.close();
    },
  };
}

function untilEnd(answer: Answer, max: number, limit: Limit): AsyncIterableIterator<Uint8Array> {
  return answer.headers["content-encoding"] === undefined
    ? new Plain(answer, max, limit)
    : decodedUntilEnd(answer, max, limit);
}

async function* decodedUntilEnd(answer: Answer, max: number, limit: Limit): AsyncGenerator<Uint8Array> {
  try {
    yield* chunksOf(answer, max);
    if (limit.error) throw limit.error;
  } catch (error) {
    throw limit.error ?? error;
  } finally {
    limit.release();
  }
}

// Behind a translator the published addresses are not ours to bind; then the system chooses.
function ownAddress(candidates: string[]): string | undefined {
  if (candidates.length === 0) return undefined;
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((each) => each.address)),
  );
  return candidates.find((address) => own.has(address));
}
