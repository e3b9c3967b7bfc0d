import { conceal } from "../connections/conceal.ts";
import { queryOf, type RequestContext } from "../http/context.ts";
import { parseUrlencoded } from "../http/form.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { withoutSecrets } from "../lib/redact.ts";
import type { Authentication } from "./authentication/index.ts";
import type { Proof } from "./authentication/type.ts";
import type { TriggerRequest } from "./store.ts";

/** What the gate knows of a call. */
export type Called = Pick<RequestContext, "method" | "path" | "body" | "raw" | "sent" | "request_id">;

const REMOVED = "[removed]";
const CREDENTIALS = ["authorization", "proxy-authorization", "cookie"];
// Named like a key, and none that opens anything.
const NO_CREDENTIALS = ["idempotency-key"];

/**
 * A request as templates and the record see it, without its credentials: neither in the headers they belong in
 * nor anywhere else in it. Throws `invalid_input` on a query that cannot be kept.
 */
export function requestOf(
  { url, headers }: Request,
  { method, path, body }: Called,
  authentication: Authentication,
  { config, secrets }: Pick<Proof, "config" | "secrets">,
): TriggerRequest {
  const hidden = new Set([...CREDENTIALS, ...authentication.credentials(config)]);
  const given: [string, string][] = [];
  headers.forEach((value, name) => {
    if (name !== "__proto__") given.push([name, hidden.has(name) ? REMOVED : value]);
  });
  const plain = {
    query: parseUrlencoded(queryOf(url)) as JsonObject,
    headers: Object.fromEntries(given),
  };
  const { value: clean } = withoutSecrets(plain);
  for (const name of NO_CREDENTIALS) {
    const value = plain.headers[name];
    if (value !== undefined) clean.headers[name] = value;
  }
  const told = authentication.withoutCredentials?.(body) ?? body ?? null;
  const shown = concealed({ ...clean, body: told }, formsOf(secrets)) as typeof clean & { body: unknown };
  return { method, path, ...shown };
}

// A text of few letters stands in others by chance.
const SHORTEST = 5;

const formsOf = (secrets: string[]): string[] =>
  secrets
    .filter((secret) => secret.length >= SHORTEST)
    .flatMap((secret) => [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64")]);

function concealed(value: unknown, secrets: string[]): unknown {
  if (secrets.length === 0) return value;
  if (typeof value === "string") return conceal(value, secrets);
  if (Array.isArray(value)) return value.map((item) => concealed(item, secrets));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, concealed(item, secrets)]));
}
