import { describe, expect, test } from "bun:test";
import { readUiMessageStream } from "../http/read-ui-message-stream.ts";
import { chat, world } from "./world.ts";

const ui = { ...chat("Hi", "c1"), trigger: "submit-message" };
const sse = { accept: "text/event-stream" };
const plain = { accept: "text/plain" };

describe("a stream is written", () => {
  test.each<[string, string, object, Record<string, string>, string]>([
    ["as the data stream by default", "", chat("Hi", "c1"), { accept: "*/*" }, "text/plain; charset=utf-8"],
    ["as UI messages where the body has a trigger", "", ui, {}, "text/event-stream"],
    ["as Accept says, before the body", "", ui, plain, "text/plain; charset=utf-8"],
    ["as Accept says", "", chat("Hi", "c1"), sse, "text/event-stream"],
    ["as the query says, before all", "?protocol=data-stream", ui, sse, "text/plain; charset=utf-8"],
    ["as the query says", "?protocol=ui-message-stream", chat("Hi"), plain, "text/event-stream"],
  ])("%s", async (_what, query, body, headers, type) => {
    const w = world();
    const agent = await w.anAgent({ visibility: "public" });
    for (const of of [agent, `anonymous/${agent}`]) {
      const response = await w.ask("POST", `/agents/${of}/stream${query}`, body, headers);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe(type);
      await response.body?.cancel();
    }
  });

  test("in no protocol that there is not", async () => {
    const w = world();
    const { status, body } = await w.call(
      "POST",
      `/agents/${await w.anAgent()}/stream?protocol=x`,
      chat("a"),
    );
    expect(status).toBe(400);
    expect(body.error.details.field).toBe("protocol");
    expect(w.rows("messages")).toEqual([]);
  });

  test("in both protocols from one record: the answer's id, its words and its end", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const response = await w.ask("POST", `/agents/${agent}/stream`, ui);
    (await w.server.next()).say("Hello").finish();
    const chunks = readUiMessageStream(await response.text());
    const { body } = await w.call("GET", `/agents/${agent}/conversations/c1`);
    expect(chunks[0]).toEqual({ type: "start", messageId: body.messages[1].id });
    expect(chunks.at(-1)).toMatchObject({ type: "finish", messageMetadata: { finishReason: "stop" } });
  });
});
