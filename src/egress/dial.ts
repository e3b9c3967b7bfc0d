import net, { type Socket } from "node:net";
import tls from "node:tls";
import { EgressError, toEgressError } from "./errors.ts";
import { blocked, type Guard, type Target } from "./guard.ts";
import type { Limit } from "./limit.ts";

export type Addresses = { address: string; family: number }[];
export type Resolve = (host: string) => Promise<Addresses>;

export type Dial = {
  /** The addresses of a target that may be connected to, one at least, all of them checked. Throws EgressError. */
  addresses(target: Target, trusted: boolean): Promise<string[]>;
  /** Opens a connection to a target, within `patienceMs` where that is given. Throws EgressError. */
  connect(target: Target, trusted: boolean, limit: Limit, patienceMs?: number): Promise<Socket>;
};

// With more addresses to try, one that does not answer is given no longer than this.
const PATIENCE_MS = 2_500;

/** Every address of a name is checked, and the connection goes to a checked one: a name is resolved once. */
export function createDial({
  guard,
  resolve,
  localAddress,
}: {
  guard: Guard;
  resolve: Resolve;
  localAddress: string | undefined;
}): Dial {
  const localFamily = localAddress?.includes(":") ? 6 : 4;

  async function addresses(target: Target, trusted: boolean): Promise<string[]> {
    if (target.literal) return [target.host];
    const found = await resolve(target.host);
    if (!found.every(({ address }) => guard.permits(target, address, trusted)))
      throw blocked(`${target.host} leads to an address that is not public`);
    const usable = localAddress ? found.filter(({ family }) => family === localFamily) : found;
    if (usable.length === 0) throw new EgressError("dns_error", `${target.host} has no usable address`);
    return usable.map(({ address }) => address);
  }

  return {
    addresses,
    async connect(target, trusted, limit, patienceMs) {
      const places = await limit.race(addresses(target, trusted));
      let failure: unknown;
      for (const [index, address] of places.entries()) {
        try {
          const patience = index < places.length - 1 ? PATIENCE_MS : patienceMs;
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

function connect({
  target: { host, port, secure, literal },
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
}): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const place = { host: address, port, localAddress };
    // The certificate must be the name's, not the address's that the name led to.
    const socket = secure
      ? tls.connect({ ...place, servername: literal ? undefined : host, ALPNProtocols: ["http/1.1"] })
      : net.connect(place);
    const give = (error: unknown) => {
      clearTimeout(timer);
      socket.on("error", () => {});
      socket.destroy();
      reject(error);
    };
    const timer =
      patience === undefined
        ? undefined
        : setTimeout(() => give(new EgressError("timeout", `${address} did not answer`)), patience);
    socket.once("error", give);
    socket.once("close", () => give(new EgressError("connection_reset", "the connection was closed")));
    socket.once(secure ? "secureConnect" : "connect", () => {
      clearTimeout(timer);
      socket.removeAllListeners("close");
      socket.setNoDelay(true);
      resolve(socket);
    });
    limit.onEnd(give);
  });
}
