import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { EgressError } from "../../src/egress/errors.ts";
import { type Head, ResponseReader } from "../../src/egress/response-reader.ts";

/** Reads what arrives in these pieces; `eof`: then the other side closes. */
function read(pieces: string[], { method = "POST", eof = false } = {}) {
  const heads: Head[] = [];
  let body = "";
  let ends = 0;
  const reader = new ResponseReader(method, {
    head: (head) => heads.push(head),
    body: (chunk) => {
      body += Buffer.from(chunk).toString("latin1");
    },
    end: () => {
      ends++;
    },
  });
  for (const piece of pieces) reader.push(Buffer.from(piece, "latin1"));
  const whole = eof ? reader.eof() : reader.ended;
  return { heads, body, ends, whole, reusable: reader.reusable };
}

const refusal = (text: string): string => {
  try {
    read([text]);
    return "taken";
  } catch (error) {
    return error instanceof EgressError ? error.class : String(error);
  }
};

describe("an answer", () => {
  test("with a length ends at its last byte, and the connection can be used again", () => {
    const { heads, body, whole, reusable } = read([
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello",
    ]);
    expect(heads).toEqual([{ status: 200, headers: { "content-length": "5", "x-a": "b" } }]);
    expect({ body, whole, reusable }).toEqual({ body: "hello", whole: true, reusable: true });
  });

  test("in chunks is put together, extensions and trailers are passed over", () => {
    const { body, whole, reusable } = read([
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nX-T: 1\r\n\r\n",
    ]);
    expect({ body, whole, reusable }).toEqual({ body: "hello", whole: true, reusable: true });
  });

  test("without either lasts until the other side closes", () => {
    const text = "HTTP/1.1 200 OK\r\n\r\nhello";
    expect(read([text])).toMatchObject({ whole: false });
    expect(read([text], { eof: true })).toMatchObject({ body: "hello", whole: true, reusable: false });
  });

  test("that is cut off is not whole", () => {
    expect(read(["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"], { eof: true }).whole).toBe(false);
    const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    expect(read([chunked], { eof: true }).whole).toBe(false);
  });

  test("to HEAD, and 204 and 304, has no body whatever its head says", () => {
    const text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    expect(read([text], { method: "HEAD" })).toMatchObject({ whole: true, reusable: true });
    expect(read(["HTTP/1.1 204 No Content\r\n\r\n"])).toMatchObject({ whole: true, reusable: true });
    expect(read(["HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n"])).toMatchObject({ whole: true });
  });

  test("may be preceded by interim ones", () => {
    const early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    const { heads } = read([`${early}HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n`]);
    expect(heads.map(({ status }) => status)).toEqual([201]);
  });

  test("closes the connection behind it when it says so, or when more comes than was asked for", () => {
    const close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    expect(read([close])).toMatchObject({ whole: true, reusable: false });
    expect(read(["HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"])).toMatchObject({ reusable: false });
    const two = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    expect(read([two])).toMatchObject({ ends: 1, reusable: false });
    const both = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    expect(read([both])).toMatchObject({ whole: true, reusable: false });
  });

  test("that can be read in two ways is refused", () => {
    const head = "HTTP/1.1 200 OK\r\n";
    for (const text of [
      "ICY 200 OK\r\n\r\n",
      "HTTP/2 200\r\n\r\n",
      "HTTP/1.1 20 OK\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n",
      `${head}no colon\r\n\r\n`,
      `${head}: empty\r\n\r\n`,
      `${head}a b: c\r\n\r\n`,
      `${head}X: a\r\n folded\r\n\r\n`,
      `${head}Content-Length: -1\r\n\r\n`,
      `${head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      `${head}Content-Length: 0x1\r\n\r\n`,
      `${head}Transfer-Encoding: gzip, chunked\r\n\r\n`,
      `${head}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`,
      `${head}Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n`,
      `${head}X: ${"a".repeat(70_000)}`,
      `${head}Transfer-Encoding: chunked\r\n\r\n1;${"a".repeat(5_000)}`,
      `${head}Transfer-Encoding: chunked\r\n\r\n0\r\n${"X: aaaaaaaa\r\n".repeat(2_000)}`,
      "a".repeat(100),
    ]) {
      expect(refusal(text)).toBe("other");
    }
  });

  test("named __proto__ changes nothing", () => {
    const { heads } = read(["HTTP/1.1 200 OK\r\n__proto__: x\r\nContent-Length: 0\r\n\r\n"]);
    expect(Object.entries(heads[0]?.headers ?? {})).toContainEqual(["__proto__", "x"]);
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
  });
});

test("where the bytes are cut makes no difference", () => {
  const chunk = fc.string({ unit: "binary-ascii", maxLength: 20 });
  const answer = fc.oneof(
    chunk.map((body) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
    fc.array(chunk.filter((text) => text.length > 0)).map((chunks) => {
      const framed = chunks.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join("");
      return `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${framed}0\r\n\r\n`;
    }),
  );
  fc.assert(
    fc.property(answer, fc.array(fc.nat(200)), (text, cuts) => {
      const at = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].toSorted((a, b) => a - b);
      const pieces = [0, ...at].map((from, index) => text.slice(from, at[index] ?? text.length));
      expect(read(pieces)).toEqual(read([text]));
    }),
  );
});
