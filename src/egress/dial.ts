import net, { type Socket } from "node:net";
import tls from "node:tls";
import { BareLine } from "./bare-line.ts";
import { EgressError, notAnswered, toEgressError } from "./errors.ts";
import { blocked, type Guard, type Target } from "./guard.ts";
import type { Limit } from "./limit.ts";
import { type Line, NodeLine } from "./line.ts";
import { type EgressProxy, unreachable } from "./proxy.ts";

export type Addresses = { address: string; family: number }[];
export type Resolve = (host: string) => Promise<Addresses>;

/** `trickles`: what comes on it comes in thousands of pieces. */
export type Wanted = { target: Target; trusted: boolean; connectMs?: number; trickles?: boolean };

export type Dial = {
  /** The addresses of a target that may be connected to, one at least, all of them checked. Throws EgressError. */
  addresses(target: Target, trusted: boolean): Promise<string[]>;
  /** Opens a connection to a target, within `connectMs` where that is given. Throws EgressError. */
  connect(hop: Wanted, limit: Limit): Promise<Line>;
  /** For a target that a proxy is asked for by its whole address: the headers that the proxy wants. */
  proxyHeaders(target: Target): Record<string, string> | undefined;
};

// With more addresses to try, one that does not answer is given no longer than this.
const PATIENCE_MS = 2_500;

/** Every address of a name is checked, and the connection goes to a checked one: a name is resolved once. */
export function createDial({
  guard,
  resolve,
  localAddress,
  proxy,
}: {
  guard: Guard;
  resolve: Resolve;
  localAddress: string | undefined;
  proxy?: EgressProxy;
}): Dial {
  const localFamily = localAddress?.includes(":") ? 6 : 4;

  async function addresses(target: Target, trusted: boolean): Promise<string[]> {
    if (target.literal) return [target.host];
    const found = await resolve(target.host);
    check(target, found, trusted);
    const usable = localAddress ? found.filter(({ family }) => family === localFamily) : found;
    if (usable.length === 0) throw new EgressError("dns_error", `${target.host} has no usable address`);
    return usable.map(({ address }) => address);
  }

  function check(target: Target, found: Addresses, trusted: boolean): void {
    if (!found.every(({ address }) => guard.permits(target, address, trusted)))
      throw blocked(`${target.host} leads to an address that is not public`);
  }

  const viaProxy = (target: Target): EgressProxy | undefined =>
    proxy && !guard.isLocal(target) ? proxy : undefined;

  // The proxy resolves names itself; what they mean here is refused here all the same. Behind a proxy there
  // may be no resolver for the names outside, and then the proxy's answer is the only one.
  async function checkForProxy(target: Target, trusted: boolean): Promise<void> {
    if (target.literal) return;
    const found = await resolve(target.host).catch(() => []);
    check(target, found, trusted);
  }

  return {
    addresses,
    proxyHeaders: (target) => (target.secure ? undefined : viaProxy(target)?.headers),
    async connect({ target, trusted, connectMs, trickles = false }, limit) {
      const via = viaProxy(target);
      if (via) {
        await limit.race(checkForProxy(target, trusted));
        return connectByProxy(via, target, limit, connectMs);
      }
      const places = await limit.race(addresses(target, trusted));
      let failure: unknown;
      for (const [index, address] of places.entries()) {
        try {
          const patience = index < places.length - 1 ? PATIENCE_MS : connectMs;
          if (trickles && !target.secure && localAddress === undefined)
            return await BareLine.open({ hostname: address, port: target.port }, limit, patience);
          return await connect({ target, address, localAddress, limit, patience });
        } catch (error) {
          if (limit.error) throw limit.error;
          failure = error;
        }
      }
      throw toEgressError(failure);
    },
  };
}

async function connectByProxy(
  proxy: EgressProxy,
  target: Target,
  limit: Limit,
  patience: number | undefined,
): Promise<Line> {
  const socket = proxy.open();
  socket.on("error", () => {}); // whoever waits is told; nobody may be waiting between two steps
  try {
    await ready(socket, "connect", limit, patience);
    if (target.secure) await limit.race(proxy.tunnel(socket, target));
  } catch (error) {
    socket.destroy();
    throw limit.error ?? unreachable(error);
  }
  if (!target.secure) return NodeLine.over(socket);
  const secured = tls.connect({ socket, ...tlsOptions(target) });
  await ready(secured, "secureConnect", limit);
  return NodeLine.over(secured);
}

// The certificate must be the name's, not the address's that the name led to.
const tlsOptions = ({ host, literal }: Target) => ({
  servername: literal ? undefined : host,
  ALPNProtocols: ["http/1.1"],
});

async function connect({
  target,
  address,
  localAddress,
  limit,
  patience,
}: {
  target: Target;
  address: string;
  localAddress: string | undefined;
  limit: Limit;
  patience: number | undefined;
}): Promise<Line> {
  const line = NodeLine.direct((options) => {
    const place = { host: address, port: target.port, localAddress, ...options };
    return target.secure ? tls.connect({ ...place, ...tlsOptions(target) }) : net.connect(place);
  });
  await ready(line.socket, target.secure ? "secureConnect" : "connect", limit, patience);
  return line;
}

/** Resolves when the connection stands, within `patience` ms where that is given. */
function ready(
  socket: Socket,
  event: "connect" | "secureConnect",
  limit: Limit,
  patience?: number,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const give = (error: unknown) => {
      clearTimeout(timer);
      socket.on("error", () => {});
      socket.destroy();
      reject(error);
    };
    const timer = patience === undefined ? undefined : setTimeout(() => give(notAnswered()), patience);
    socket.once("error", give);
    socket.once("close", () => give(new EgressError("connection_reset", "the connection was closed")));
    socket.once(event, () => {
      clearTimeout(timer);
      socket.removeAllListeners("close");
      socket.setNoDelay(true);
      resolve(socket);
    });
    limit.onEnd(give);
  });
}
