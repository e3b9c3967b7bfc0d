import { describe, expect, test } from "bun:test";
import net from "node:net";
import { createEgress } from "../../src/egress/egress.ts";
import { createModels } from "../../src/models/index.ts";
import { settled } from "../helpers/clock.ts";
import { asked, collect, moved, setup } from "./setup.ts";

const text = (words: string) => ({ type: "text", text: words });

describe("a model that fails before its first word", () => {
  test("is followed by the others in turn, and the first that answers it is", async () => {
    const { server, models } = setup();
    const collected = collect(models, asked({ fallback_models: ["nobody/x", "vllm/b", "openai/c"] }));
    (await server.next()).refuse(400, { message: "no" });
    const second = await server.next();
    expect(second.body.model).toBe("b");
    second.say("Hello").finish();
    expect((await collected).parts[0]).toEqual(text("Hello") as never);
  });

  test("is the one that is told of when all of them fail", async () => {
    const { server, models } = setup();
    const collected = collect(models, asked({ fallback_models: ["openai/b"] }));
    (await server.next()).refuse(400, { message: "first" });
    (await server.next()).refuse(400, { message: "second" });
    expect((await collected).error?.message).toContain("first");
  });

  test("is not followed by others once it has said something", async () => {
    const { server, models } = setup();
    const collected = collect(models, asked({ fallback_models: ["openai/b"] }));
    const call = await server.next();
    call.say("Half");
    void settled().then(() => call.cut());
    const { parts, error } = await collected;
    expect(parts).toEqual([text("Half")] as never);
    expect(error).toBeDefined();
  });

  test("is waited for as long as its server asks, up to five seconds", async () => {
    const { server, models, clock } = setup();
    const collected = collect(models);
    (await server.next()).refuse(429, undefined, { "retry-after": "4" });
    const second = server.next();
    let isThere = false;
    void second.then(() => {
      isThere = true;
    });
    await clock.advance(3_900);
    expect(isThere).toBe(false);
    await moved(clock, second, 100);
    (await second).say("Hello").finish();
    expect((await collected).parts[0]).toEqual(text("Hello") as never);
  });

  test("is not waited for longer: the next one is asked at once", async () => {
    const { server, models } = setup();
    const collected = collect(models, asked({ fallback_models: ["openai/b"] }));
    (await server.next()).refuse(429, undefined, { "retry-after": "60" });
    (await server.next()).say("Hello").finish();
    expect((await collected).parts[0]).toEqual(text("Hello") as never);
  });

  test("is given up at once when the reader goes away", async () => {
    const { server, models } = setup();
    const controller = new AbortController();
    const collected = collect(models, asked({ signal: controller.signal, fallback_models: ["openai/b"] }));
    (await server.next()).refuse(500);
    await settled();
    controller.abort();
    expect((await collected).error).toBeDefined();
  });
});

describe("time limits", () => {
  test("of an agent go before the usual ones", async () => {
    const { server, models, clock } = setup();
    const collected = collect(models, asked({ limits: { first_token: 2_000 }, fallback_models: [] }));
    await server.next();
    const second = server.next();
    await moved(clock, second, 500);
    await second;
    await moved(clock, collected, 500);
    expect((await collected).error).toMatchObject({ code: "MODEL_TIMEOUT" });
    expect(clock.now() - Date.UTC(2026, 0, 1)).toBeLessThan(10_000);
  });

  test("hold for a connection that never stands", async () => {
    // Accepts, and never says the first word of TLS.
    const silent = net.createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as net.AddressInfo;
    const { clock } = setup();
    const egress = createEgress();
    const models = createModels({
      config: { openai_base_url: `https://127.0.0.1:${port}/v1` },
      egress,
      clock,
    });
    const collected = collect(models, asked({ limits: { connect: 20 } }));
    await moved(clock, collected);
    expect((await collected).error).toMatchObject({ code: "MODEL_TIMEOUT" });
    egress.close();
    silent.close();
  });
});
