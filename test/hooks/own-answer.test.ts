import { expect, test } from "bun:test";
import { ownAnswerOf, toResponse } from "../../src/hooks/own-answer.ts";

const told = async (status: number, headers: Record<string, string>, body: never | unknown) => {
  const response = toResponse({ status, headers, body: body as never }, false);
  return [response.status, response.headers.get("content-type"), await response.text()];
};

test("text goes out as it is, anything else as JSON, nothing as nothing", async () => {
  expect(await told(200, {}, "hé")).toEqual([200, "text/plain; charset=utf-8", "hé"]);
  expect(await told(201, {}, { a: [1] })).toEqual([201, "application/json; charset=utf-8", '{"a":[1]}']);
  expect(await told(200, {}, false)).toEqual([200, "application/json; charset=utf-8", "false"]);
  expect(await told(200, { "content-type": "text/xml" }, "<a/>")).toEqual([200, "text/xml", "<a/>"]);
  expect(await told(404, {}, null)).toEqual([404, null, ""]);
  for (const status of [204, 205, 304]) expect(await told(status, {}, "dropped")).toEqual([status, null, ""]);
});

test("a page in it stands in a sandbox, whatever it says of itself", () => {
  const headers = { "content-security-policy": "default-src *", location: "https://x.example/" };
  const response = toResponse({ status: 302, headers, body: null }, true);
  expect(response.headers.get("content-security-policy")).toBe("sandbox");
  expect(response.headers.get("location")).toBe("https://x.example/");
  expect(response.headers.get("idempotent-replay")).toBe("true");
});

test("an execution that said nothing has no answer of its own", () => {
  for (const none of [undefined, null, "x", {}, { status: "200" }]) expect(ownAnswerOf(none)).toBeUndefined();
});
