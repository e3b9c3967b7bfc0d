import { bearer } from "@elysiajs/bearer";
import { Elysia } from "elysia";
import { unauthorized } from "../lib/errors.ts";
import { type Authenticate, bearerToken } from "./authorization.ts";
import { findContext } from "./context.ts";
import type { Policy } from "./routes.ts";

/**
 * Gives routes the macro `policy`, which every route must state (see `Policy`). Under `key` a handler gets
 * `caller`. The gate has authenticated before anything was parsed; this is the second door, for a request
 * that reached the app another way or by another route than the gate read from its path.
 */
export const policies = new Elysia({ name: "http.policies" })
  .use(bearer({ extract: { header: "Bearer", query: "", body: "" } }))
  .macro("policy", (policy: Policy) => ({
    detail: { "x-policy": policy } as object,
    // Left out for the others at run time: their handlers have no caller and pay for none.
    resolve:
      policy !== "key"
        ? (undefined as never)
        : async ({ request, store, bearer }) => {
            const known = findContext(request)?.caller;
            if (known) return { caller: known };
            // The plugin also reads a query and takes "BearerX": what it found must be what the strict form holds.
            const token = bearerToken(request.headers.get("authorization"));
            const { authenticate } = store as { authenticate?: Authenticate };
            const caller = token === undefined || token !== bearer ? undefined : await authenticate?.(token);
            if (!caller) throw unauthorized();
            return { caller };
          },
  }));

/**
 * The same macro for routes that never want a key, without the bearer plugin: it has every header and the
 * whole query of each request taken apart, and the webhooks' way in is the busiest of all.
 */
export const openPolicies = new Elysia({ name: "http.open-policies" }).macro(
  "policy",
  (policy: Exclude<Policy, "key">) => ({ detail: { "x-policy": policy } as object }),
);
