import { expect, test } from "bun:test";
import fc from "fast-check";
import { credentialsOf } from "../../src/hooks/credentials.ts";

const tokensIn = (query: string) =>
  credentialsOf(`http://localhost/webhooks/workflows/1?${query}`, new Headers());

test("a token is all that stands behind its name, as it was sent but for what is encoded", () => {
  expect(tokensIn("token=a")).toEqual(["a"]);
  expect(tokensIn("token=")).toEqual([""]);
  expect(tokensIn("token")).toEqual([""]);
  expect(tokensIn("token=a?token=b")).toEqual(["a?token=b"]);
  expect(tokensIn("token=a=b")).toEqual(["a=b"]);
  expect(tokensIn("token=a+b")).toEqual(["a+b"]);
  expect(tokensIn("token=a%2Bb")).toEqual(["a+b"]);
  expect(tokensIn("tokens=a")).toEqual([]);
  expect(tokensIn("")).toEqual([]);
});

test("the tokens of a query are the same whatever else stands in it", () => {
  const piece = fc.constantFrom("token", "=", "token=", "a", "?", "+", "&", "%41", "%", "#", ".");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const query = pieces.join("");
      expect(tokensIn(query)).toEqual(tokensIn(`${query}&other=1`));
    }),
  );
});
