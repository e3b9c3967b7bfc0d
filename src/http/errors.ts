import { AppError, type ErrorCode, type Fault, invalid, invalidField } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";

// The one place that knows statuses: a new code does not compile without one.
const STATUS: Record<ErrorCode, number> = {
  invalid_input: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  gone: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
  internal: 500,
  unavailable: 503,
};

export const statusOf = (code: ErrorCode): number => STATUS[code];
export const wireCode = (code: ErrorCode): string => code.toUpperCase();
export const errorCodes = Object.keys(STATUS) as ErrorCode[];

/** The error as a client sees it: `details` is the first fault, `faults` all of them (interface section 7). */
export type ErrorBody = {
  success?: false;
  error: {
    code: string;
    message: string;
    hint?: string;
    details?: Fault;
    faults?: Fault[];
    request_id: string;
  };
};

/**
 * Where an error is answered: `hook` puts `"success":false` first, as incoming webhooks show it; a `wording`
 * has a body of its own.
 */
export type ErrorPlace = { request_id: string; hook: boolean; wording?: ErrorWording | undefined };

/** `openai`: as clients of OpenAI's interface read errors. */
export type ErrorWording = "openai";

const OPENAI_TYPES: Partial<Record<ErrorCode, { type: string; code: string }>> = {
  unauthorized: { type: "invalid_request_error", code: "invalid_api_key" },
  forbidden: { type: "invalid_request_error", code: "model_not_found" },
  not_found: { type: "invalid_request_error", code: "model_not_found" },
  rate_limited: { type: "requests", code: "rate_limit_exceeded" },
  internal: { type: "server_error", code: "internal" },
  unavailable: { type: "server_error", code: "unavailable" },
};

/** `code` overrides the usual one; `param` is the field at fault. */
export function openaiError({ code, message, extra }: AppError, own?: string) {
  const { type = "invalid_request_error", code: usual = null } = OPENAI_TYPES[code] ?? {};
  const param = extra.faults?.[0]?.field || (usual === "model_not_found" ? "model" : null);
  const found = usual === "model_not_found" && param !== "model" ? "not_found" : usual;
  return { error: { message, type, param, code: own ?? found } };
}

export function errorBody(error: AppError, place: ErrorPlace): ErrorBody {
  const { faults, hint } = error.extra;
  const first = faults?.[0];
  return {
    ...(place.hook ? { success: false as const } : {}),
    error: {
      code: wireCode(error.code),
      message: error.message,
      ...(hint ? { hint } : {}),
      ...(first ? { details: first, faults } : {}),
      request_id: place.request_id,
    },
  };
}

/**
 * Answers any thrown value. What is not an AppError and not one of the framework's own refusals is a
 * bug: logged whole under the request's id, shown as "Internal server error."
 */
export function errorResponse(thrown: unknown, place: ErrorPlace, log?: Log): Response {
  const known = toAppError(thrown);
  if (!known) log?.error("a request failed unexpectedly", { request_id: place.request_id, error: thrown });
  const error = known ?? new AppError("internal", "Internal server error.");
  const body = place.wording === "openai" ? openaiError(error) : errorBody(error, place);
  return new Response(JSON.stringify(body), {
    status: statusOf(error.code),
    headers: { ...error.extra.headers, "content-type": "application/json; charset=utf-8" },
  });
}

type Issue = Partial<Fault> & { message?: string; path?: unknown };
type Standard = {
  "~standard"?: { validate(value: unknown): { issues?: readonly Issue[] } | Promise<unknown> };
};
type FrameworkError = {
  code?: unknown;
  type?: unknown;
  value?: unknown;
  validator?: Standard & { schema?: Standard };
};

/** The failure as one of ours; undefined for a bug. */
export function toAppError(thrown: unknown): AppError | undefined {
  if (thrown instanceof AppError) return thrown;
  const { code, type, validator, value } = (thrown ?? {}) as FrameworkError;
  if (code === "NOT_FOUND") return new AppError("not_found", "No such address.");
  if (code === "PARSE") return invalidField("", "a body in the announced form", "another form");
  // An answer that breaks its own schema is our bug, not the caller's.
  if (code !== "VALIDATION" || type === "response") return undefined;
  // Asked again because the framework keeps the words of an issue and drops the rest of it.
  const again = (validator?.["~standard"] ?? validator?.schema?.["~standard"])?.validate(value);
  const issues = again && "issues" in again ? (again.issues ?? []) : [];
  if (issues.length > 0) return invalid(issues.map(toFault));
  return new AppError("invalid_input", "The request does not have the shape this address takes.");
}

const toFault = ({ field, expected, received, message, path }: Issue): Fault => ({
  field: field ?? (Array.isArray(path) ? path.join(".") : ""),
  expected: expected ?? message ?? "another value",
  received: received ?? "something else",
});
