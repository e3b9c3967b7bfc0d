import net, { type Socket } from "node:net";
import { EgressError } from "./errors.ts";
import type { Target } from "./guard.ts";

/** The operator's way out (`egress_proxy`): everything but local targets goes by it. */
export type EgressProxy = {
  /** Opens a connection to the proxy itself, which is asked for `http:` targets by their whole address. */
  open(): Socket;
  /** Has a fresh connection lead to the target, for TLS to go through. Rejects with EgressError `proxy_error`. */
  tunnel(socket: Socket, target: Target): Promise<void>;
  /** What each request to an `http:` target carries for the proxy. */
  headers: Record<string, string>;
};

// A proxy's refusal may carry a page; its head is all that is looked at.
const LONGEST_HEAD = 16_384;

/** Reads `http://user:password@host:port`. */
export function createProxy(text: string, localAddress: string | undefined): EgressProxy {
  const url = new URL(text);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port === "" ? 80 : Number(url.port);
  const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  const headers: Record<string, string> =
    login === ":" ? {} : { "Proxy-Authorization": `Basic ${Buffer.from(login).toString("base64")}` };

  return {
    headers,
    open: () => net.connect({ host, port, localAddress }),

    tunnel(socket, target) {
      const place = `${target.host.includes(":") ? `[${target.host}]` : target.host}:${target.port}`;
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      return new Promise((resolve, reject) => {
        let head = "";
        const end = (error?: EgressError) => {
          socket.off("data", read);
          socket.off("close", closed);
          socket.pause();
          if (error) reject(error);
          else resolve();
        };
        const closed = () => end(new EgressError("proxy_error", "the egress proxy closed the connection"));
        const read = (chunk: Buffer) => {
          head += chunk.toString("latin1");
          const at = head.indexOf("\r\n\r\n");
          if (at === -1 && head.length <= LONGEST_HEAD) return;
          const status = /^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1];
          if (at === -1 || !status)
            end(new EgressError("proxy_error", "the egress proxy does not speak HTTP"));
          else if (!status.startsWith("2"))
            end(new EgressError("proxy_error", `the egress proxy answered ${status}`));
          // Nothing may come before our first byte: what follows the head would be the proxy's own.
          else if (head.length > at + 4)
            end(new EgressError("proxy_error", "the egress proxy sent more than its answer"));
          else end();
        };
        socket.on("data", read);
        socket.on("close", closed);
        socket.write(`CONNECT ${place} HTTP/1.1\r\nHost: ${place}\r\n${lines.join("")}\r\n`, "latin1");
      });
    },
  };
}

export const unreachable = (error: unknown): EgressError =>
  error instanceof EgressError
    ? error
    : new EgressError(
        "proxy_error",
        `the egress proxy cannot be reached: ${error instanceof Error ? error.message : String(error)}`,
      );
