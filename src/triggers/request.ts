import { queryOf, type RequestContext } from "../http/context.ts";
import { parseUrlencoded } from "../http/form.ts";
import { conceal, formsOf } from "../lib/conceal.ts";
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
 * nor anywhere else in it. Never throws: this is asked before it is known who calls.
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
    query: queryFields(queryOf(url)),
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

function queryFields(query: string): JsonObject {
  if (query === "") return {};
  const fields = new URLSearchParams(query);
  fields.delete("__proto__");
  return parseUrlencoded(fields.toString()) as JsonObject;
}

function concealed(value: unknown, secrets: string[]): unknown {
  if (secrets.length === 0) return value;
  if (typeof value === "string") return conceal(value, secrets);
  if (Array.isArray(value)) return value.map((item) => concealed(item, secrets));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, concealed(item, secrets)]));
}
