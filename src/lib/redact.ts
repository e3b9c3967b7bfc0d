const HIDDEN = "[redacted]";
const LONGEST = 8 * 1024;
const DEEPEST = 6;

// `key_id` and `idempotency_key_id` name a key; `key`, `api_key` and `secret_key` are one.
const SECRET_NAME =
  /token|secret|authorization|password|passwd|passphrase|credential|cookie|signature|(^|[_-]|api)key$/i;

// Credentials that stand inside a text: header values, query parameters, our own prefixes.
const SECRET_TEXT =
  /\b(bearer|basic)\s+[\w.~+/=-]{6,}|([?&](?:token|access_token|key|secret|signature)=)[^&\s"]+|\b(?:erk|eht|whsec|sk)[_-][\w+/=-]{8,}|(:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/gi;

/**
 * A copy of a value that may go to a log: fields named like secrets lose their text, credentials inside
 * texts are cut out, errors are spelt out with their stack, and size and depth are bounded. Numbers and
 * flags stay: `prompt_tokens: 12` is no secret.
 */
export function redact(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return cleanText(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEEPEST) return "[deeper]";
  if (value instanceof Error) return redactError(value, depth);
  if (value instanceof Date) return value;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.slice(0, 100).map((item) => redact(item, depth + 1));
  const copy: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    const hide =
      SECRET_NAME.test(name) && (typeof item === "string" || (typeof item === "object" && item !== null));
    copy[name] = hide ? HIDDEN : redact(item, depth + 1);
  }
  return copy;
}

/** A text without the credentials that stand in it, and of bounded length. */
export function cleanText(text: string): string {
  const kept = text.length > LONGEST ? `${text.slice(0, LONGEST)}… ${text.length} characters` : text;
  return kept.replace(SECRET_TEXT, (_, scheme?: string, parameter?: string, login?: string) =>
    scheme ? `${scheme} ${HIDDEN}` : `${parameter ?? login ?? ""}${HIDDEN}`,
  );
}

function redactError(error: Error & { code?: unknown }, depth: number): Record<string, unknown> {
  return {
    name: error.name,
    message: cleanText(error.message),
    ...(error.code === undefined ? {} : { code: error.code }),
    ...(error.stack ? { stack: cleanText(error.stack) } : {}),
    ...(error.cause === undefined ? {} : { cause: redact(error.cause, depth + 1) }),
  };
}

const REMOVED = "[removed]";
const LONG_KEY = 20;

/**
 * A whole copy without the credentials in it, and the paths they stood at: for what is handed on, where a
 * bounded text for a log would not do. What a template fills in is no credential yet, and stays.
 */
export function withoutSecrets<T>(value: T, path = ""): { value: T; removed: string[] } {
  const removed: string[] = [];
  const below = (at: string, name: string | number) => (at === "" ? String(name) : `${at}.${name}`);
  function visit(item: unknown, at: string, named: boolean): unknown {
    if (typeof item === "string") {
      const kept = named && !item.includes("{{") && item !== "" ? REMOVED : withoutCredentials(item);
      if (kept !== item) removed.push(at);
      return kept;
    }
    if (Array.isArray(item)) return item.map((one, index) => visit(one, below(at, index), named));
    if (typeof item !== "object" || item === null) return item;
    const copy: Record<string, unknown> = {};
    for (const [name, one] of Object.entries(item)) {
      // `key` alone names a field to sort or group by more often than a credential.
      const isPlainKey = /^keys?$/i.test(name) && typeof one === "string" && one.length < LONG_KEY;
      copy[name] = visit(one, below(at, name), named || (SECRET_NAME.test(name) && !isPlainKey));
    }
    return copy;
  }
  return { value: visit(value, path, false) as T, removed };
}

const withoutCredentials = (text: string): string =>
  text.replace(SECRET_TEXT, (_, scheme?: string, parameter?: string, login?: string) =>
    scheme ? `${scheme} ${REMOVED}` : `${parameter ?? login ?? ""}${REMOVED}`,
  );
