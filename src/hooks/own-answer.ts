import { isObject, type Json } from "../lib/json.ts";

/** What a workflow says itself to whoever waits for it (node type `respond_to_webhook`); headers in lower case. */
export type OwnAnswer = { status: number; headers: Record<string, string>; body: Json };

/** Undefined for an execution that has said nothing. */
export const ownAnswerOf = (response: unknown): OwnAnswer | undefined =>
  isObject(response) && typeof response["status"] === "number" ? (response as OwnAnswer) : undefined;

const BODILESS = new Set([204, 205, 304]);

/**
 * The answer as HTTP: text as it is, anything else as JSON. A page in it acts in a sandbox of its own: its
 * author is not the one whom this address belongs to.
 */
export function toResponse({ status, headers, body }: OwnAnswer, replayed: boolean): Response {
  const own = new Headers(headers);
  own.set("content-security-policy", "sandbox");
  if (replayed) own.set("idempotent-replay", "true");
  if (body === null || BODILESS.has(status)) return new Response(null, { status, headers: own });
  const isText = typeof body === "string";
  if (!own.has("content-type")) {
    own.set("content-type", isText ? "text/plain; charset=utf-8" : "application/json; charset=utf-8");
  }
  return new Response(isText ? body : JSON.stringify(body), { status, headers: own });
}
