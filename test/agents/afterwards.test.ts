import { describe, expect, test } from "bun:test";
import { readDataStream } from "../http/read-data-stream.ts";
import { moved } from "../models/setup.ts";
import { CALLER, chat, world } from "./world.ts";

type World = ReturnType<typeof world>;

async function said(w: World, agent: string, words: string) {
  const response = await w.ask("POST", `/agents/${agent}/stream`, chat(words, "c1"));
  return response.text().then(readDataStream);
}
const kept = async (w: World, agent: string) => {
  const { title, suggested_replies } = await w.conversations.get(CALLER, agent, "c1");
  return { title, suggested_replies };
};
const dataOf = (parts: { type: string }[]) =>
  parts.flatMap((part) => (part.type === "data" ? (part as never as { data: unknown[] }).data : []));

describe("a conversation without a title", () => {
  test("gets one from the model after its first answer, told before the last line, and keeps it", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.*");
    const agent = await w.anAgent({ auto_generate_title: true });
    const parts = said(w, agent, "My parcel is late");
    (await w.server.next()).say("Sorry").finish();
    const second = await w.server.next();
    expect(second.body.messages[1].content).toBe("User: My parcel is late\n\nAssistant: Sorry");
    expect(w.rows("turns")).toMatchObject([{ state: "success" }]);
    second.say('<think>hm</think>"Late parcel."\nor so').finish();
    const all = await parts;
    expect(all.slice(-2).map(({ type }) => type)).toEqual(["data", "finish"]);
    expect(dataOf(all)).toEqual([{ type: "title", title: "Late parcel" }]);
    expect(all.at(-1)).toMatchObject({ usage: { prompt_tokens: 7 } });
    expect((await kept(w, agent)).title).toBe("Late parcel");
    expect(w.eventRows()).toHaveLength(3);

    const again = said(w, agent, "And now?");
    (await w.server.next()).say("Wait").finish();
    expect(dataOf(await again)).toEqual([]);
  });

  test("gets its first words where the model fails or takes too long", async () => {
    for (const how of ["refuse", "hang"]) {
      const w = world({ model: "server" });
      const agent = await w.anAgent({ auto_generate_title: true });
      const words = `Where ${"is my parcel and ".repeat(10)}`;
      const parts = said(w, agent, words);
      (await w.server.next()).say("Sorry").finish();
      const second = await w.server.next();
      if (how === "refuse") second.refuse(400);
      await moved(w.clock, parts);
      expect((await parts).at(-1)).toMatchObject({ reason: "stop" });
      const { title } = await kept(w, agent);
      expect(title).toStartWith("Where is my parcel");
      expect(title!.length).toBeLessThanOrEqual(60);
    }
  });

  test("that came by webhook is named by rule: nobody waits for a better one", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ auto_generate_title: true });
    const { id } = await w.enqueue(agent, "Order 7 is late\nPlease help", {
      context: { conversation_id: "c1" },
    });
    (await w.server.next()).say("Sorry").finish();
    await w.until(id, "success");
    expect((await kept(w, agent)).title).toBe("Order 7 is late");
  });
});

describe("suggested replies", () => {
  test("are told before the last line and kept with the conversation, at most three", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ suggest_replies: true });
    const parts = said(w, agent, "Hi");
    (await w.server.next()).say("Hello").finish();
    (await w.server.next()).say('```json\n["One", "Two", 3, "", "Three", "Four"]\n```').finish();
    const suggested_replies = ["One", "Two", "Three"];
    expect(dataOf(await parts)).toEqual([{ type: "suggested_replies", suggested_replies }]);
    expect(await kept(w, agent)).toEqual({ title: null, suggested_replies });
  });

  test.each(["none", "[oops", '["unended]', "{}", "[[]]", "[oops]"])(
    "are left out where the model says %j",
    async (words) => {
      const w = world({ model: "server" });
      const agent = await w.anAgent({ suggest_replies: true });
      const parts = said(w, agent, "Hi");
      (await w.server.next()).say("Hello").finish();
      (await w.server.next()).say(words).finish();
      const all = await parts;
      expect(dataOf(all)).toEqual([]);
      expect(all.at(-1)).toMatchObject({ reason: "stop" });
    },
  );

  test("and titles are made by rule offline", async () => {
    const w = world();
    const agent = await w.anAgent({ suggest_replies: true, auto_generate_title: true });
    expect(dataOf(await said(w, agent, "Hello there"))).toMatchObject([
      { type: "title", title: "Hello there" },
      { type: "suggested_replies", suggested_replies: [expect.any(String), expect.any(String)] },
    ]);
  });
});
