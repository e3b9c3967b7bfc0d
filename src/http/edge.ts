import { Elysia } from "elysia";
import type { Log } from "../lib/log.ts";
import type { Authenticate } from "./authorization.ts";
import { findContext } from "./context.ts";
import { errorResponse } from "./errors.ts";

/**
 * What the app takes over from the gate: bodies it has read, errors it words, keys it knows.
 * Used by the app's root before any route: hooks cover only what is registered after them.
 */
export const edge = ({ log, authenticate }: { log: Log; authenticate: Authenticate }) =>
  new Elysia({ name: "http.edge" })
    .state("authenticate", authenticate)
    .onRequest(({ request, set }) => {
      const context = findContext(request);
      if (!context) return;
      Object.assign(set.headers, context.headers);
      context.dressed = true;
    })
    .onError({ as: "global" }, ({ error, request }) => {
      const context = findContext(request);
      return errorResponse(error, context ?? { request_id: "", hook: false }, log);
    });

/**
 * Hands the gate's parsed bodies to routes that declare one. Apart from `edge`, because the framework opens
 * the body of every request to a route behind it; those that read the context alone stand before it.
 */
export const bodies = new Elysia({ name: "http.bodies" }).onParse({ as: "global" }, ({ request }) => {
  const context = findContext(request);
  // `undefined` would send Elysia to read a body that is read already.
  return context && (context.body === undefined ? null : context.body);
});
