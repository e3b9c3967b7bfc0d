/** Why a request got no answer: a closed vocabulary, shown in logs and stored with attempts. */
export type EgressErrorClass =
  | "dns_error"
  | "connection_refused"
  | "connection_reset"
  | "network_unreachable"
  | "timeout"
  | "tls_error"
  | "proxy_error"
  | "blocked"
  | "bad_url"
  | "aborted"
  | "other";

export class EgressError extends Error {
  readonly class: EgressErrorClass;

  constructor(errorClass: EgressErrorClass, message: string) {
    super(message);
    this.name = "EgressError";
    this.class = errorClass;
  }
}

export const notAnswered = (): EgressError => new EgressError("timeout", "the address did not answer");

const BY_CODE: Record<string, EgressErrorClass> = {
  ENOTFOUND: "dns_error",
  ENODATA: "dns_error",
  EAI_AGAIN: "dns_error",
  EAI_FAIL: "dns_error",
  ECONNREFUSED: "connection_refused",
  ECONNRESET: "connection_reset",
  ECONNABORTED: "connection_reset",
  EPIPE: "connection_reset",
  ENETUNREACH: "network_unreachable",
  EHOSTUNREACH: "network_unreachable",
  EADDRNOTAVAIL: "network_unreachable",
  ETIMEDOUT: "timeout",
};

const TLS = /^(ERR_TLS|ERR_SSL|EPROTO|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH)/;

/** Sorts what node:http(s) reports; an error that is one of ours already stays as it is. */
export function toEgressError(error: unknown): EgressError {
  if (error instanceof EgressError) return error;
  const cause = firstOf(error);
  const code = String((cause as { code?: unknown } | null)?.code ?? "");
  const message = cause instanceof Error ? cause.message : String(cause);
  return new EgressError(BY_CODE[code] ?? (TLS.test(code) ? "tls_error" : "other"), message);
}

// With several addresses tried, node reports them together.
const firstOf = (error: unknown): unknown =>
  error instanceof AggregateError ? (error.errors[0] ?? error) : error;
