import { type EgressAnswer, EgressError } from "../egress/egress.ts";
import { NodeError } from "./node.ts";

/** A request that got no answer, as a step says it: only what another try could mend is tried again. */
export function toNodeError(error: unknown): unknown {
  if (!(error instanceof EgressError)) return error;
  const retryable = error.class !== "blocked" && error.class !== "bad_url" && error.class !== "aborted";
  return new NodeError(error.class.toUpperCase(), error.message, { retryable });
}

/** Throws for an answer of 400 and above. */
export function checkStatus({ status }: Pick<EgressAnswer, "status">): void {
  if (status < 400) return;
  const retryable = status >= 500 || status === 429 || status === 408;
  throw new NodeError("HTTP_STATUS", `The server answered ${status}.`, { retryable });
}

/** `text/html; charset=utf-8` is text/html, in lower case. */
export const mediaTypeOf = (headers: Record<string, string>): string =>
  (headers["content-type"] ?? "").split(";", 1)[0]!.trim().toLowerCase();

/** A body as text, in the character set that its headers name, else UTF-8. */
export function textOf({ headers, body }: Pick<EgressAnswer, "headers" | "body">): string {
  const named = /charset\s*=\s*"?([\w.:-]{1,40})/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  try {
    // The names that are known are the runtime's affair; an unknown one throws.
    return new TextDecoder(named as "utf-8").decode(body);
  } catch {
    return new TextDecoder().decode(body);
  }
}
