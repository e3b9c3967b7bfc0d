import { randomUUID } from "node:crypto";
import { isObject } from "../lib/json.ts";
import { NodeError } from "./node.ts";

export const BODY_TYPES = ["auto", "json", "text", "form", "multipart", "base64"] as const;

type Given = {
  headers?: Record<string, string | number | boolean>;
  body?: unknown;
  body_type?: (typeof BODY_TYPES)[number];
};
type Content = { headers: Record<string, string>; body?: string | Uint8Array };

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** The headers and the body of a request as they go out; headers that were given go before our own. */
export function contentOf({ headers: given = {}, body, body_type = "auto" }: Given): Content {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    const text = String(value);
    // The value may be a secret: the header is named, and no more.
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(text)) {
      throw new NodeError("BAD_HEADER", `The header ${JSON.stringify(name.slice(0, 100))} cannot be sent.`);
    }
    headers[name.toLowerCase()] = text;
  }
  if (body === undefined || body === null) return { headers };
  const type = body_type === "auto" ? (typeof body === "string" ? "text" : "json") : body_type;
  const content = ENCODERS[type](body);
  // A form's parts are told apart by what our own header says of them.
  const ours = type === "multipart" ? { ...headers, ...content.headers } : { ...content.headers, ...headers };
  return { headers: ours, body: content.body };
}

const ENCODERS: Record<Exclude<(typeof BODY_TYPES)[number], "auto">, (body: unknown) => Required<Content>> = {
  json: (body) => ({ headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  text: (body) => ({
    headers: { "content-type": "text/plain; charset=utf-8" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  }),
  form: (body) => {
    const form = new URLSearchParams();
    for (const [name, value] of Object.entries(fieldsOf(body, "form"))) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null) form.append(name, textOf(one));
      }
    }
    return { headers: { "content-type": "application/x-www-form-urlencoded" }, body: form.toString() };
  },
  multipart: (body) => multipart(fieldsOf(body, "multipart")),
  base64: (body) => ({
    headers: { "content-type": "application/octet-stream" },
    body: bytesOf(typeof body === "string" ? body : ""),
  }),
};

const textOf = (value: unknown): string =>
  typeof value === "object" ? JSON.stringify(value) : String(value);

function fieldsOf(body: unknown, type: string): Record<string, unknown> {
  if (isObject(body)) return body;
  throw new NodeError("INVALID_CONFIG", `body: expected an object, as body_type is ${type}`);
}

function bytesOf(text: string): Uint8Array {
  if (/^[A-Za-z0-9+/_\s-]*={0,2}\s*$/.test(text)) return Buffer.from(text, "base64");
  throw new NodeError("INVALID_CONFIG", "body: expected base64");
}

// By hand: FormData would have to be asked for its bytes asynchronously, and makes its own boundary anyway.
function multipart(fields: Record<string, unknown>): Required<Content> {
  const boundary = `errand-${randomUUID()}`;
  const parts = Object.entries(fields).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter((one) => one !== null).map((one) => partOf(name, one)),
  );
  const pieces = parts.flatMap(({ head, content }) => [
    Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
    content,
    Buffer.from("\r\n"),
  ]);
  return {
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
  };
}

function partOf(name: string, value: unknown): { head: string; content: Uint8Array } {
  const named = `Content-Disposition: form-data; name="${escaped(name)}"`;
  if (!isObject(value) || typeof value["filename"] !== "string") {
    return { head: named, content: Buffer.from(textOf(value)) };
  }
  const { filename, content, content_base64, media_type } = value;
  const type =
    typeof media_type === "string" && HEADER_VALUE.test(media_type) ? media_type : "application/octet-stream";
  return {
    head: `${named}; filename="${escaped(filename as string)}"\r\nContent-Type: ${type}`,
    content:
      typeof content_base64 === "string" ? bytesOf(content_base64) : Buffer.from(textOf(content ?? "")),
  };
}

// As browsers do it: a line break or a quote in a name must not end it.
const escaped = (text: string): string =>
  text.replace(
    /["\r\n]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
