import { describe, expect, test } from "bun:test";
import { chat, NOWHERE, OTHER, world } from "./world.ts";

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUg==", "base64");
const GIF = Buffer.from("R0lGODlhAQABAAAAACw=", "base64");
const dataUrl = (bytes: Buffer, type = "image/png") => `data:${type};base64,${bytes.toString("base64")}`;
const withImages = (...urls: string[]) =>
  chat([{ type: "text", text: "What is this?" }, ...urls.map((image) => ({ type: "image", image }))], "c1");
const wire = (bytes: Buffer, type: string) => ({
  type: "image_url",
  image_url: { url: dataUrl(bytes, type) },
});

async function setup() {
  const w = world({ model: "server" });
  const agent = await w.anAgent({ visibility: "public" });
  async function talk(body: object, of = agent) {
    const asked = w.ask("POST", `/agents/${of}/stream`, body);
    const call = await w.server.next();
    call.say("A dot").finish();
    await (await asked).text();
    return call;
  }
  const read = async () => (await w.call("GET", `/agents/${agent}/conversations/c1`)).body.messages;
  return { w, agent, talk, read };
}

describe("a picture of a message", () => {
  test("goes to the model, with this message and the next, and is kept apart from the message", async () => {
    const { w, agent, talk, read } = await setup();
    const call = await talk(withImages(dataUrl(PNG)));
    const question = [{ type: "text", text: "What is this?" }, wire(PNG, "image/png")];
    expect(call.body.messages).toEqual([{ role: "user", content: question }]);
    const [message] = await read();
    expect(message.content).toBe("What is this?");
    const { attachment_id, ...part } = message.parts[1];
    expect(part).toEqual({ type: "image", media_type: "image/png", size: PNG.length, name: null });
    const picture = await w.ask("GET", `/agents/${agent}/attachments/${attachment_id}`);
    expect(picture.headers.get("content-type")).toBe("image/png");
    expect(picture.headers.get("content-security-policy")).toContain("sandbox");
    expect(Buffer.from(await picture.arrayBuffer())).toEqual(PNG);
    const next = await talk(chat("And now?", "c1"));
    expect(next.body.messages[0]).toEqual({ role: "user", content: question });
  });

  test("is what its bytes are, whatever it is called, and is kept once", async () => {
    const { w, talk, read } = await setup();
    await talk(withImages(dataUrl(GIF, "image/png"), dataUrl(GIF), dataUrl(PNG)));
    const parts = (await read())[0].parts.slice(1);
    expect(parts.map((part: { media_type: string }) => part.media_type)).toEqual([
      "image/gif",
      "image/gif",
      "image/png",
    ]);
    expect(parts[0].attachment_id).toBe(parts[1].attachment_id);
    expect(w.rows("attachments")).toHaveLength(2);
  });

  test("that is elsewhere is fetched past the guard alone, and nothing is left of a message refused", async () => {
    const { w, agent } = await setup();
    const own = w.server.url.replace("/v1", "/cat.png");
    for (const url of [own, "http://169.254.169.254/latest", "http://localhost:1/x.png"]) {
      const { status, body } = await w.call("POST", `/agents/${agent}/stream`, withImages(dataUrl(PNG), url));
      expect([url, status, body.error.details.field]).toEqual([url, 400, "messages.0.content.2"]);
      expect(body.error.details.received).toContain("blocked");
    }
    for (const table of ["conversations", "messages", "attachments"]) expect(w.rows(table)).toEqual([]);
  });

  test("of a stranger comes from public servers alone, whatever the operator allows the project", async () => {
    const png = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(new Uint8Array(PNG)) });
    const w = world({ model: "server", allow: ["127.0.0.1"] });
    const agent = await w.anAgent({ visibility: "public" });
    const body = withImages(`http://127.0.0.1:${png.port}/cat.png`);
    const refused = await w.call("POST", `/agents/anonymous/${agent}/stream`, body, { authorization: "" });
    expect([refused.status, refused.body.error.details.received]).toEqual([400, "no answer (blocked)"]);
    const talking = w.ask("POST", `/agents/${agent}/stream`, body);
    (await w.server.next()).say("A cat").finish();
    expect(await (await talking).text()).toContain("A cat");
    png.stop(true);
  });

  test("that a crash left without its message is gone after the next start", async () => {
    const { w, talk } = await setup();
    await talk(withImages(dataUrl(PNG)));
    const [kept] = w.rows("attachments") as [{ id: string }];
    const row = { sha256: "0", media_type: "image/png", size: 1, data: "AA==", created_at: 0 };
    await w.storage.writer.submit("attachments.put", { ...row, id: "lost", conversation_id: NOWHERE });
    expect(w.rows("attachments")).toHaveLength(2);
    await w.turns.recover();
    expect(w.rows("attachments")).toEqual([kept]);
  });

  test("is refused where the agent takes none, or fewer, or smaller ones", async () => {
    const w = world();
    const status = async (attachment_config: object, ...urls: string[]) => {
      const agent = await w.anAgent({ attachment_config });
      return (await w.ask("POST", `/agents/${agent}/stream`, withImages(...urls))).status;
    };
    const [a, b] = [dataUrl(PNG), dataUrl(GIF)];
    expect(await status({ enable: false }, a)).toBe(400);
    expect(await status({ enable: false })).toBe(200);
    expect(await status({ max_count_per_message: 1 }, a, b)).toBe(400);
    expect(await status({ max_file_size: PNG.length - 1 }, a)).toBe(413);
    expect(w.rows("attachments")).toEqual([]);
    const wrong = { name: "a", attachment_config: { max_count_per_message: 11 } };
    expect((await w.call("POST", "/agents?workspace_id=w", wrong)).status).toBe(400);
  });

  test("is out of reach for other agents, other projects and those without a key", async () => {
    const { w, agent, talk, read } = await setup();
    await talk(withImages(dataUrl(PNG)));
    const { attachment_id } = (await read())[0].parts[1];
    const status = async (of: string, id = attachment_id, headers = {}) =>
      (await w.ask("GET", `/agents/${of}/attachments/${id}`, undefined, headers)).status;
    expect(await status(agent)).toBe(200);
    expect(await status(await w.anAgent())).toBe(404);
    expect(await status(agent, NOWHERE)).toBe(404);
    expect(await status(await w.anAgent({}, OTHER))).toBe(403);
    expect(await status(agent, attachment_id, { authorization: "Bearer none" })).toBe(401);
  });

  test("goes with its conversation", async () => {
    const { w, agent, talk } = await setup();
    await talk(withImages(dataUrl(PNG)));
    await w.call("DELETE", `/agents/${agent}/conversations/c1`);
    expect(w.rows("attachments")).toEqual([]);
  });

  test("may be five megabytes with a key, and less without", async () => {
    const { w, agent, talk, read } = await setup();
    const large = Buffer.alloc(5 * 1024 * 1024);
    PNG.copy(large);
    await talk(withImages(dataUrl(large)));
    expect((await read())[0].parts[1].size).toBe(large.length);
    const { status } = await w.call("POST", `/agents/anonymous/${agent}/stream`, withImages(dataUrl(large)));
    expect(status).toBe(413);
  });
});
