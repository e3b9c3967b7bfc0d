/** Every failure a caller can act on. `http/errors.ts` gives each its status; nothing else may reach a client. */
export type ErrorCode =
  | "invalid_input"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "conflict"
  | "gone"
  | "payload_too_large"
  | "unsupported_media_type"
  | "rate_limited"
  | "internal"
  | "unavailable";

/** What was wrong with one field: interface section 7. `field` is a dotted path, "" for the whole body. */
export type Fault = { field: string; expected: string; received: string };

export class AppError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    /** `headers` go with an HTTP answer; `hint` is a next step a person can take. */
    readonly extra: { faults?: Fault[]; hint?: string; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.name = "AppError";
  }
}

export const notFound = (what: string, id: string) => new AppError("not_found", `${what} ${id} not found`);
export const forbidden = (message: string) => new AppError("forbidden", message);
export const unauthorized = (message = "A valid API key is required.") =>
  new AppError("unauthorized", message, { headers: { "www-authenticate": "Bearer" } });
export const conflict = (message: string) => new AppError("conflict", message);
export const unavailable = (message: string, retryAfterSeconds = 1) =>
  new AppError("unavailable", message, { headers: { "retry-after": String(retryAfterSeconds) } });

export const rateLimited = (seconds: number | string) =>
  new AppError("rate_limited", `Too many requests. Try again in ${seconds} s.`, {
    headers: { "retry-after": String(seconds) },
  });

/** 400 with every fault found; the message names the first. */
export function invalid(faults: Fault[], message?: string): AppError {
  const first = faults[0];
  const where = first?.field ? `${first.field}: ` : "";
  const text = first ? `${where}expected ${first.expected}, received ${first.received}` : "Invalid input";
  return new AppError("invalid_input", message ?? text, { faults });
}

export const invalidField = (field: string, expected: string, received: string, message?: string) =>
  invalid([{ field, expected, received }], message);

/** Names a value for a fault without repeating it: secrets and megabytes stay out of answers. */
export function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return `array of ${value.length}`;
  if (value === "") return "empty text";
  if (typeof value === "string") return value.length > 40 ? `string of ${value.length} characters` : "string";
  return typeof value;
}
