import type { Server } from "bun";
import { AppError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import { errorResponse } from "./errors.ts";
import type { Gate } from "./gate.ts";

/** The address cannot be served. `in_use`: another process has it. */
export class ListenError extends Error {
  constructor(
    readonly reason: "in_use" | "not_permitted" | "no_such_address" | "other",
    readonly hostname: string,
    readonly port: number,
    options?: ErrorOptions,
  ) {
    super(`cannot listen on ${hostname}:${port}: ${REASONS[reason]}`, options);
    this.name = "ListenError";
  }
}

const REASONS: Record<ListenError["reason"], string> = {
  in_use: "the port is in use",
  not_permitted: "not permitted",
  no_such_address: "this machine has no such address",
  other: "the system refuses",
};

const BY_CODE: Record<string, ListenError["reason"]> = {
  EADDRINUSE: "in_use",
  EACCES: "not_permitted",
  EPERM: "not_permitted",
  EADDRNOTAVAIL: "no_such_address",
  ENOTFOUND: "no_such_address",
};

// A connection silent for this long is cut; streams lift it through their context.
const IDLE_SECONDS = 10;

export type Listening = {
  port: number;
  hostname: string;
  /** Takes no more connections; waits for open requests, or with `force` cuts them. */
  stop(force?: boolean): Promise<void>;
};

/** Serves the gate. Throws ListenError. Port 0 takes a free one. */
export function listen({
  gate,
  hostname,
  port,
  log,
}: {
  gate: Gate;
  hostname: string;
  port: number;
  log: Log;
}): Listening {
  let server: Server<unknown>;
  try {
    server = Bun.serve({
      hostname,
      port,
      // A second instance would share the port without a word, and half of the requests with it.
      reusePort: false,
      // The built-in error page shows source code.
      development: false,
      idleTimeout: IDLE_SECONDS,
      // The gate holds the limit and words the refusal; the server's own answer has no body.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: gate,
      error: (error) => lastResort(error, log),
    });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ListenError(BY_CODE[code ?? ""] ?? "other", hostname, port, { cause: error });
  }
  return {
    port: server.port ?? port,
    hostname: server.hostname ?? hostname,
    stop: (force) => server.stop(force),
  };
}

function lastResort(error: unknown, log: Log): Response {
  log.error("an answer could not be sent", { error });
  return errorResponse(new AppError("internal", "Internal server error."), { request_id: "", hook: false });
}
