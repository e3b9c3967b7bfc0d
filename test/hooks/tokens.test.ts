import { beforeEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isHookToken, makeHookToken } from "../../src/hooks/token.ts";
import { deleteHookTokens } from "../../src/storage/sqlite/hooks.ts";
import { setup } from "./world.ts";

let world: Awaited<ReturnType<typeof setup>>;
let key: string;
beforeEach(async () => {
  world = await setup();
  key = await world.keyOf(world.own);
});

describe("webhook tokens", () => {
  for (const type of ["agents", "workflows"] as const) {
    test(`of ${type} are made with a ready address, listed without it, and revoked`, async () => {
      const id = world.aTarget();
      const path = `/api/${type}/${id}/webhook-tokens`;
      const made = await world.send("POST", path, { key, body: { name: "CI" } });
      expect(made.status).toBe(201);
      expect(made.body).toMatchObject({
        target_type: type,
        target_id: id,
        name: "CI",
        status: "active",
        url: `https://errand.example/webhooks/${type}/${id}?token=${made.body.token}`,
        last_four: made.body.token.slice(-4),
        created_at: "2026-01-01T00:00:00.000Z",
        expires_at: null,
      });
      await world.send("POST", path, { key, body: {} });

      const list = await world.send("GET", path, { key });
      expect(list.headers.get("x-total-count")).toBe("2");
      expect(list.body[0].id).toBe(made.body.id);
      expect(list.text).not.toContain(made.body.token);
      expect(list.body[0].token ?? list.body[0].token_hash ?? list.body[0].url).toBeUndefined();

      expect((await world.send("DELETE", `${path}/${made.body.id}`, { key })).status).toBe(204);
      expect((await world.send("DELETE", `${path}/${made.body.id}`, { key })).status).toBe(204);
      expect((await world.send("GET", path, { key })).body[0]).toMatchObject({
        status: "revoked",
        revoked_at: "2026-01-01T00:00:00.000Z",
      });
    });
  }

  test("are not kept in the database in a form that opens anything", async () => {
    const { token } = await world.hookTokens.admin.create("agents", world.aTarget());
    expect(JSON.stringify(world.db.all("SELECT * FROM hook_tokens"))).not.toContain(token.slice(4, -6));
  });

  test("stay within the key's project: 403 for what is elsewhere, 404 for what is nowhere", async () => {
    const statuses = async (id: string) => {
      const path = `/api/agents/${id}/webhook-tokens`;
      return [
        (await world.send("POST", path, { key, body: {} })).status,
        (await world.send("GET", path, { key })).status,
        (await world.send("DELETE", `${path}/${crypto.randomUUID()}`, { key })).status,
      ];
    };
    expect(await statuses(world.aTarget(world.sibling))).toEqual([403, 403, 403]);
    expect(await statuses(world.aTarget(world.other))).toEqual([403, 403, 403]);
    expect(await statuses(crypto.randomUUID())).toEqual([404, 404, 404]);
    expect(await statuses("no-id")).toEqual([404, 404, 404]);
    expect(world.db.all("SELECT * FROM hook_tokens")).toEqual([]);
  });

  test("of one target cannot be revoked through another", async () => {
    const [mine, foreign] = [world.aTarget(), world.aTarget(world.other)];
    const { id } = await world.hookTokens.admin.create("agents", foreign);
    const answer = await world.send("DELETE", `/api/agents/${mine}/webhook-tokens/${id}`, { key });
    expect(answer.status).toBe(404);
    expect((await world.hookTokens.admin.list("agents", foreign))[0]!.status).toBe("active");
  });

  test("take no unknown field and no time that has passed", async () => {
    const path = `/api/agents/${world.aTarget()}/webhook-tokens`;
    for (const body of [
      { token: "eht_mine" },
      { name: "" },
      { name: 1 },
      { expires_at: "yesterday" },
      { expires_at: "2025-12-31T23:59:59Z" },
      { expires_at: "2026-01-01T00:00:00Z" },
      { expires_at: 1_800_000_000 },
      [],
    ]) {
      expect([body, (await world.send("POST", path, { key, body })).status]).toEqual([body, 400]);
    }
    expect(
      (await world.send("POST", path, { key, body: { expires_at: "2027-01-01T00:00:00+02:00" } })).body,
    ).toMatchObject({
      expires_at: "2026-12-31T22:00:00.000Z",
    });
  });

  test("go with their target", async () => {
    const id = world.aTarget();
    await world.hookTokens.admin.create("agents", id);
    deleteHookTokens(world.db, "agents", id);
    expect(await world.hookTokens.admin.list("agents", id)).toEqual([]);
  });
});

test("a token with one character changed is told by its checksum", () => {
  const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  fc.assert(
    fc.property(fc.integer({ min: 4, max: 52 }), fc.constantFrom(...letters), (place, letter) => {
      const token = makeHookToken();
      const changed = token.slice(0, place) + letter + token.slice(place + 1);
      return isHookToken(token) && isHookToken(changed) === (changed === token);
    }),
  );
});
