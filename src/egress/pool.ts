import http from "node:http";
import https from "node:https";

/** Idle connections, kept for the next request to the same host and port. */
export type Pool = { http: http.Agent; https: https.Agent; close(): void };

const IDLE_PER_HOST = 256;
const SWEEP_MS = 2_000;

/**
 * Closes connections that stayed idle from one sweep to the next: servers commonly close theirs after 5 s
 * or more, and going first keeps stale ones rare. (The agent's own `timeout` arms a timer with every
 * request, which costs a tenth of the throughput.)
 */
export function openPool({ keepAlive = true } = {}): Pool {
  const options = { keepAlive, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: IDLE_PER_HOST };
  const agents = { http: new http.Agent(options), https: new https.Agent(options) };
  const written = new WeakMap<object, number>();

  function sweep(): void {
    for (const agent of [agents.http, agents.https]) {
      for (const sockets of Object.values(agent.freeSockets)) {
        for (const socket of sockets ?? []) {
          if (written.get(socket) === socket.bytesWritten) socket.destroy();
          else written.set(socket, socket.bytesWritten);
        }
      }
    }
  }
  const sweeper = keepAlive ? setInterval(sweep, SWEEP_MS).unref() : undefined;

  return {
    ...agents,
    close() {
      clearInterval(sweeper);
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}
