import { describe, expect, test } from "bun:test";
import { readStreamBody } from "../../src/agents/stream-body.ts";
import { AppError } from "../../src/lib/errors.ts";

const body = (message: object, more: object = {}) => ({ id: "chat-1", messages: [message], ...more });

function faultOf(value: unknown) {
  try {
    readStreamBody(value);
  } catch (error) {
    if (error instanceof AppError) return { code: error.code, field: error.extra.faults?.[0]?.field };
    throw error;
  }
  throw new Error("it was taken");
}

describe("the text of the last message is taken", () => {
  test.each<[string, object]>([
    ["from text", { role: "user", content: "Hi" }],
    ["from content parts", { role: "user", content: [{ type: "text", text: "Hi" }] }],
    ["from parts", { id: "m", role: "user", parts: [{ type: "text", text: "Hi" }] }],
    ["from both, once", { role: "user", content: "Hi", parts: [{ type: "text", text: "Hi" }] }],
    ["beside empty content", { role: "user", content: "", parts: [{ type: "text", text: "Hi" }] }],
    ["with no attachments", { role: "user", content: "Hi", experimental_attachments: [] }],
    [
      "past parts of a client's own",
      { role: "user", parts: [{ type: "step-start" }, { type: "data-x" }, { type: "text", text: "Hi" }] },
    ],
    ["past fields of a client's own", { role: "user", content: "Hi", createdAt: 1, annotations: [] }],
  ])("%s", (_what, message) => {
    expect(readStreamBody(body(message))).toEqual({ client_id: "chat-1", text: "Hi" });
  });

  test("whatever stands before it", () => {
    const messages = [{ role: "system", content: "x" }, 5, { role: "user", content: "Hi" }];
    expect(readStreamBody({ id: "a", messages }).text).toBe("Hi");
  });
});

describe("a conversation is named", () => {
  const message = { role: "user", content: "Hi" };
  const idOf = (more: object) => readStreamBody({ messages: [message], ...more }).client_id;

  test("by id, else by threadId, else not", () => {
    expect(idOf({ id: "a", threadId: "b" })).toBe("a");
    expect(idOf({ threadId: "b" })).toBe("b");
    expect(idOf({ id: null, threadId: "b" })).toBe("b");
    expect(idOf({})).toBeUndefined();
  });

  test("by text of a sensible length only", () => {
    for (const id of ["", 5, {}, "x".repeat(201)]) {
      expect(faultOf({ id, messages: [message] })).toEqual({ code: "invalid_input", field: "id" });
    }
  });
});

describe("refused, and named, is", () => {
  test.each<[string, unknown, string]>([
    ["no object", [], ""],
    ["no messages", {}, "messages"],
    ["an empty list", { messages: [] }, "messages"],
    ["messages that are no list", { messages: "Hi" }, "messages"],
    ["a last message that is none", { messages: [null] }, "messages.0"],
    ["one of the assistant", body({ role: "assistant", content: "Hi" }), "messages.0.role"],
    ["one without a role", body({ content: "Hi" }), "messages.0.role"],
    ["one without words", body({ role: "user", content: "  \n" }), "messages.0.content"],
    ["one without content", body({ role: "user" }), "messages.0.content"],
    ["content of another type", body({ role: "user", content: 5 }), "messages.0.content"],
    ["a part that is none", body({ role: "user", content: ["Hi"] }), "messages.0.content.0"],
    ["too long a text", body({ role: "user", content: "x".repeat(200_001) }), "messages.0.content"],
    [
      "an attachment",
      body({ role: "user", content: "Hi", experimental_attachments: [{ url: "data:," }] }),
      "messages.0.experimental_attachments",
    ],
    [
      "an image among the parts",
      body({
        role: "user",
        parts: [
          { type: "text", text: "Hi" },
          { type: "file", url: "data:," },
        ],
      }),
      "messages.0.parts.1",
    ],
    [
      "an image among the content",
      body({ role: "user", content: [{ type: "image_url", image_url: {} }] }),
      "messages.0.content.0",
    ],
  ])("%s", (_what, value, field) => {
    expect(faultOf(value)).toEqual({ code: "invalid_input", field });
  });
});
