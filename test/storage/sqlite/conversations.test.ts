import { expect, test } from "bun:test";
import { world } from "../../agents/world.ts";
import { settled } from "../../helpers/clock.ts";

test("a turn that takes the program down with it each time is given up after the third crash", async () => {
  let w = world({ model: "server" });
  const { id } = await w.enqueue(await w.anAgent(), "Hi");
  await w.server.next();
  for (const dead of [0, 0, 1]) {
    w = world({ model: "server", storage: w.storage });
    expect(await w.runner.start()).toMatchObject({ dead });
    if (dead === 0) await w.server.next();
    await settled();
  }
  expect(await w.turns.status(id)).toMatchObject({ status: "failed", error: { code: "CRASH_LOOP" } });
});
