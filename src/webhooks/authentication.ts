import { describe, type Fault } from "../lib/errors.ts";

/** How a delivery names itself to the receiver (interface 5.3.5). Kept sealed; secrets are never answered. */
export type Authentication =
  | { type: "none" }
  | { type: "bearer"; token: string }
  | { type: "basic"; username: string; password: string }
  | { type: "header"; name: string; value: string };

const FIELDS: Record<Authentication["type"], string[]> = {
  none: [],
  bearer: ["token"],
  basic: ["username", "password"],
  header: ["name", "value"],
};

export const AUTHENTICATION_TYPES = Object.keys(FIELDS) as Authentication["type"][];

/** What is missing or too much for the type, and what cannot stand in a header. */
export function authenticationFaults(given: Record<string, unknown>): Fault[] {
  const wanted = FIELDS[given["type"] as Authentication["type"]];
  const faults: Fault[] = [];
  const at = (name: string) => `authentication.${name}`;
  for (const name of wanted) {
    const value = given[name];
    if (value === undefined || value === "") {
      faults.push({
        field: at(name),
        expected: "a value",
        received: value === "" ? "empty text" : "nothing",
      });
    }
  }
  for (const name of Object.keys(given)) {
    if (name !== "type" && !wanted.includes(name)) {
      faults.push({
        field: at(name),
        expected: `nothing for type ${given["type"]}`,
        received: describe(given[name]),
      });
    }
  }
  if (String(given["username"] ?? "").includes(":")) {
    faults.push({ field: at("username"), expected: "no colon", received: "a colon" });
  }
  if (typeof given["name"] === "string") faults.push(...nameFaults(given["name"], at("name")));
  // Basic credentials are encoded, the others stand in a header as they are.
  for (const name of ["token", "value"]) faults.push(...valueFaults(given[name], at(name)));
  return faults;
}

/** The header that carries it. */
export function authenticationHeaders(authentication: Authentication | undefined): Record<string, string> {
  switch (authentication?.type) {
    case "bearer":
      return { Authorization: `Bearer ${authentication.token}` };
    case "basic": {
      const { username, password } = authentication;
      return { Authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
    }
    case "header":
      return { [authentication.name]: authentication.value };
    default:
      return {};
  }
}

/** What may be shown of it. */
export function publicAuthentication(authentication: Authentication | undefined): Record<string, string> {
  switch (authentication?.type) {
    case "basic":
      return { type: "basic", username: authentication.username };
    case "header":
      return { type: "header", name: authentication.name };
    default:
      return { type: authentication?.type ?? "none" };
  }
}

// Ours on every delivery, or framing that only the sender can know.
const RESERVED = new Set([
  "host",
  "connection",
  "content-length",
  "content-type",
  "content-encoding",
  "expect",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
]);
const RESERVED_FAMILY = /^(webhook-|x-service-|proxy-)/;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;

/** Faults of the custom headers of a subscription. */
export function headerFaults(headers: Record<string, string>): Fault[] {
  const seen = new Set<string>();
  return Object.entries(headers).flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    const again = seen.has(lower);
    seen.add(lower);
    return [
      ...nameFaults(name, `headers.${name}`),
      ...valueFaults(value, `headers.${name}`),
      ...(again ? [{ field: `headers.${name}`, expected: "each header once", received: "a second" }] : []),
    ];
  });
}

/** Two of one name: which of them counts would be for each receiver to say. */
export function doubleFaults(
  authentication: Authentication | undefined,
  headers: Record<string, string> | undefined,
): Fault[] {
  const own = Object.keys(authenticationHeaders(authentication)).map((name) => name.toLowerCase());
  return Object.keys(headers ?? {})
    .filter((name) => own.includes(name.toLowerCase()))
    .map((name) => ({
      field: `headers.${name}`,
      expected: "no header that authentication sets",
      received: name.toLowerCase(),
    }));
}

function nameFaults(name: string, field: string): Fault[] {
  if (!HEADER_NAME.test(name)) return [{ field, expected: "a header name", received: "other characters" }];
  const lower = name.toLowerCase();
  if (!RESERVED.has(lower) && !RESERVED_FAMILY.test(lower)) return [];
  return [{ field, expected: "a header that is not reserved", received: lower }];
}

function valueFaults(value: unknown, field: string): Fault[] {
  if (value === undefined || (typeof value === "string" && /^[\t\x20-\x7e]*$/.test(value))) return [];
  return [{ field, expected: "printable ASCII", received: describe(value) }];
}
