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
    expect(readStreamBody(body(message))).toMatchObject({ client_id: "chat-1", text: "Hi", images: [] });
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
  ])("%s", (_what, value, field) => {
    expect(faultOf(value)).toEqual({ code: "invalid_input", field });
  });
});

const PNG = "iVBORw0KGgoAAAANSUhEUg==";
const GIF = "R0lGODlhAQABAAAAACw=";
const asUrl = `data:image/png;base64,${PNG}`;

describe("a picture is taken", () => {
  const bytes = Buffer.from(PNG, "base64");
  test.each<[string, object]>([
    [
      "beside the message",
      { content: "Hi", experimental_attachments: [{ name: "a", contentType: "image/png", url: asUrl }] },
    ],
    ["as a file part with an address", { parts: [{ type: "file", mediaType: "image/png", url: asUrl }] }],
    ["as a file part with data", { parts: [{ type: "file", mimeType: "image/png", data: PNG }] }],
    ["as OpenAI's part", { content: [{ type: "image_url", image_url: { url: asUrl, detail: "low" } }] }],
    ["as OpenAI's newer part", { content: [{ type: "input_image", image_url: asUrl }] }],
    ["as an image part", { content: [{ type: "image", image: asUrl }] }],
    [
      "as Anthropic's part",
      {
        content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }],
      },
    ],
    ["called something else than it is", { parts: [{ type: "file", mediaType: "text/html", url: asUrl }] }],
  ])("%s", (_what, message) => {
    const { images } = readStreamBody(body({ role: "user", ...message }));
    expect(images).toMatchObject([{ bytes }]);
  });

  test("once, though AI SDK 4 sends it beside the message and among its parts", () => {
    const both = {
      role: "user",
      content: "Hi",
      parts: [{ type: "file", mimeType: "image/png", data: PNG }],
      experimental_attachments: [{ url: asUrl }],
    };
    expect(readStreamBody(body(both)).images).toHaveLength(1);
  });

  test("with no words beside it", () => {
    const { text, images } = readStreamBody(body({ role: "user", parts: [{ type: "file", url: asUrl }] }));
    expect([text, images.length]).toEqual(["", 1]);
  });

  test("by its address, to be fetched", () => {
    const url = "https://images.example/cat.png";
    const { images } = readStreamBody(body({ role: "user", content: [{ type: "image", image: url }] }));
    expect(images).toEqual([{ field: "messages.0.content.0", name: null, url }]);
  });

  test("not where it is none, too large, one too many, or not to be read", () => {
    const part = (url: unknown) => body({ role: "user", parts: [{ type: "file", url }] });
    const refused = { code: "invalid_input" as const, field: "messages.0.parts.0" };
    expect(faultOf(part("data:image/png;base64,SGVsbG8="))).toEqual(refused);
    expect(faultOf(part("data:image/svg+xml;base64,PHN2Zz48L3N2Zz4="))).toEqual(refused);
    expect(faultOf(part("data:image/png,abc"))).toEqual(refused);
    expect(faultOf(part("file:///etc/passwd"))).toEqual(refused);
    expect(faultOf(part(5))).toEqual(refused);
    expect(faultOf(part(undefined))).toEqual(refused);
    const large = Buffer.alloc(5 * 1024 * 1024 + 1);
    Buffer.from(PNG, "base64").copy(large);
    expect(faultOf(part(`data:;base64,${large.toString("base64")}`))).toEqual({
      code: "payload_too_large",
      field: "messages.0.parts.0",
    });
    const many = Array.from({ length: 11 }, () => ({ type: "file", url: `data:;base64,${GIF}` }));
    expect(faultOf(body({ role: "user", parts: many })).field).toBe("messages.0.content");
  });
});

describe("the place of a message is", () => {
  const user = (content: string) => ({ role: "user", content });
  const parts = [{ type: "text", text: "Hi" }];
  test.each<[string, object, object]>([
    ["the next one", { messages: [user("Hi")] }, { type: "next" }],
    ["the next one, by a trigger", { trigger: "submit-message", messages: [user("Hi")] }, { type: "next" }],
    [
      "another answer",
      { trigger: "regenerate-message", messageId: "m", messages: [user("Hi")] },
      { type: "again", message_id: "m" },
    ],
    [
      "another newest answer",
      { trigger: "regenerate-message", messages: [user("Hi")] },
      { type: "again", message_id: null },
    ],
    [
      "that of the message named",
      { trigger: "submit-message", messageId: "m", messages: [user("Hi")] },
      { type: "instead", message_id: "m" },
    ],
    [
      "told by how many there are",
      { messages: [user("Hi"), { role: "assistant", content: "Hello" }, user("Hi")] },
      { type: "repeated", count: 2 },
    ],
    [
      "told so for one, where a chat client sent it",
      { messages: [{ ...user("Hi"), parts }] },
      { type: "repeated", count: 1 },
    ],
  ])("%s", (_what, more, place) => {
    expect(readStreamBody({ id: "c", ...more }).place).toMatchObject(place);
  });
});
