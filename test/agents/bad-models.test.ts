import { describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import type { Call } from "../models/chat-server.ts";
import { chat, world } from "./world.ts";

type World = ReturnType<typeof world>;

/** Answers every call by `answer` and turns the clock until the stream has ended. */
async function through(w: World, agent: string, answer: (call: Call) => void) {
  const response = await w.ask("POST", `/agents/${agent}/stream`, chat("One", "c1"));
  let text: string | undefined;
  void response.text().then((whole) => {
    text = whole;
  });
  const serve = async () => {
    for (;;) answer(await w.server.next());
  };
  void serve();
  for (let turn = 0; text === undefined && turn < 200; turn++) {
    await settled(20);
    await w.clock.advance(10_000);
  }
  return readDataStream((text ?? "").replaceAll(/^\n/gm, ""));
}

const half = (call: Call) => call.say("Half");
const bad: [string, (call: Call) => void, { kept: boolean }][] = [
  ["refuses the key", (call) => call.refuse(401), { kept: false }],
  ["takes no more requests", (call) => call.refuse(429), { kept: false }],
  ["fails", (call) => call.refuse(500), { kept: false }],
  ["sends garbage", (call) => call.raw("data: {oops\n\n").end(), { kept: false }],
  ["sends nothing", (call) => call.raw(":\n\n").end(), { kept: false }],
  ["cuts the connection", (call) => call.raw(":\n\n").cut(), { kept: false }],
  ["hangs before its first word", () => {}, { kept: false }],
  ["hangs under way", half, { kept: true }],
  ["sends garbage under way", (call) => half(call).raw("data: {oops\n\n").end(), { kept: true }],
  [
    "reports a failure under way",
    (call) =>
      half(call)
        .event({ error: { message: "x" } })
        .end(),
    { kept: true },
  ],
  [
    "calls 10,000 tools at once",
    (call) => {
      const tool_calls = Array.from({ length: 10_000 }, (_, index) => ({
        index,
        id: `c${index}`,
        function: { name: "none", arguments: "{}" },
      }));
      call.delta({ tool_calls }).finish("tool_calls");
    },
    { kept: false },
  ],
  ["breaks off", (call) => half(call).end(), { kept: true }],
];

describe("a model that", () => {
  test.each(bad)(
    "%s ends the stream in words, and the conversation goes on",
    async (_what, answer, { kept }) => {
      const w = world({ model: "server" });
      const agent = await w.anAgent({ auto_generate_title: false });
      const parts = await through(w, agent, answer);
      const error = parts.find((part) => part.type === "error");
      expect(error).toMatchObject({ message: expect.stringMatching(/^The model/) });
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "error" });
      expect(w.rows("turns")).toMatchObject([{ state: "failed" }]);
      const { body } = await w.call("GET", `/agents/${agent}/conversations/c1`);
      expect(body.messages.at(-1).error.message).toStartWith("The model");
      expect(w.rows("messages").map(({ role, state }) => [role, state])).toEqual([
        ["user", "complete"],
        ...(kept ? [["assistant", "failed"]] : []),
      ]);

      const next = world({ storage: w.storage });
      const again = await next.ask("POST", `/agents/${agent}/stream`, chat("Two", "c1"));
      expect(readDataStream(await again.text()).at(-1)).toMatchObject({ type: "finish", reason: "stop" });
    },
  );
});
