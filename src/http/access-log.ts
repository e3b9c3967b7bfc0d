import type { Logger } from "../lib/log.ts";
import { cleanText } from "../lib/redact.ts";
import type { RequestContext } from "./context.ts";

/** Logs one line for each answered request. The query, the body and every header stay out of it. */
export function createAccessLog(log: Logger) {
  return (context: RequestContext, method: string, status: number, ms: number): void => {
    const { route, caller } = context;
    log.plain(status >= 500 ? "error" : "info", "request", {
      request_id: context.request_id,
      method,
      // An address that leads to nothing may be a webhook's with its token in the wrong place.
      path: route?.secretPath ? route.template : status < 400 ? context.path : cleanText(context.path),
      route: route?.template,
      status,
      ms: Math.round(ms * 100) / 100,
      ip: context.ip,
      bytes: context.bytes,
      key_id: caller?.key_id,
    });
  };
}

export type AccessLog = ReturnType<typeof createAccessLog>;
