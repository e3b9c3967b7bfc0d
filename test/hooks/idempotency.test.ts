import { describe, expect, test } from "bun:test";
import { startContext } from "../../src/hooks/idempotency.ts";
import { forgetClaims } from "../../src/hooks/jobs.ts";
import { CLAIM_MS, type IdempotencyClaim } from "../../src/hooks/store.ts";
import { RequestContext, remember } from "../../src/http/context.ts";
import { sha256Hex } from "../../src/lib/secrets.ts";
import { runBatch } from "../../src/storage/sqlite/batch.ts";
import { claimIdempotency, sqliteIdempotency } from "../../src/storage/sqlite/idempotency.ts";
import { TestClock } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";

const NOW = 1_000_000_000;
const aClaim = (claim: Partial<IdempotencyClaim & { status: number; response: string }> = {}) => ({
  scope: "s",
  key: "k",
  request_hash: "h",
  status: 202,
  response: '{"n":1}',
  expires_at: NOW + CLAIM_MS,
  ...claim,
});

describe("an idempotency claim", () => {
  test("is new once, then repeats its answer, and refuses another request", () => {
    const { reader: db } = memoryStorage();
    expect(claimIdempotency(db, aClaim())).toEqual({ outcome: "new" });
    const again = aClaim({ response: '{"n":2}', status: 200 });
    expect(claimIdempotency(db, again)).toEqual({ outcome: "replay", status: 202, response: '{"n":1}' });
    expect(claimIdempotency(db, aClaim({ request_hash: "other" }))).toEqual({ outcome: "mismatch" });
    expect(claimIdempotency(db, aClaim({ scope: "s2" }))).toEqual({ outcome: "new" });
    expect(claimIdempotency(db, aClaim({ key: "k2" }))).toEqual({ outcome: "new" });
  });

  test("ends to the millisecond; a later request takes the key over", () => {
    const { reader: db } = memoryStorage();
    claimIdempotency(db, aClaim());
    const after = (ms: number) =>
      aClaim({ request_hash: "other", response: "{}", expires_at: NOW + ms + CLAIM_MS });
    expect(claimIdempotency(db, after(CLAIM_MS - 1))).toEqual({ outcome: "mismatch" });
    expect(claimIdempotency(db, after(CLAIM_MS))).toEqual({ outcome: "new" });
    expect(claimIdempotency(db, after(CLAIM_MS))).toEqual({ outcome: "replay", status: 202, response: "{}" });
  });

  test("in one batch is won by the first, also when the batch is run again for another's fault", () => {
    const { reader: db } = memoryStorage();
    const registry = {
      claim: claimIdempotency,
      fail: () => {
        throw new Error("no");
      },
    };
    const call = (name: string, args?: unknown) => ({ name, args, durable: true });
    const outcomes = runBatch(db, registry, [
      call("claim", aClaim()),
      call("claim", aClaim()),
      call("fail"),
      call("claim", aClaim({ request_hash: "other" })),
    ]);
    expect(outcomes).toMatchObject([
      { value: { outcome: "new" } },
      { value: { outcome: "replay" } },
      { ok: false },
      { value: { outcome: "mismatch" } },
    ]);
  });
});

test("expired claims are forgotten in slices, the others stay", async () => {
  const storage = memoryStorage();
  const store = sqliteIdempotency(storage);
  const clock = new TestClock(NOW);
  for (let n = 0; n < 1_200; n++)
    claimIdempotency(storage.reader, aClaim({ key: `old ${n}`, expires_at: NOW }));
  claimIdempotency(storage.reader, aClaim());
  expect(await store.prune(NOW, 100)).toBe(100);
  await forgetClaims({ store, clock }).run();
  expect(storage.reader.all<{ key: string }>("SELECT key FROM idempotency").map(({ key }) => key)).toEqual([
    "k",
  ]);
});

describe("what a key's holder says when starting work", () => {
  const context = (headers: Record<string, string>, raw = "{}") => {
    const request = new Request("http://localhost/", { method: "POST", headers });
    const known = new RequestContext("r", 0, request, undefined, () => "");
    known.raw = raw;
    known.clock = new TestClock(NOW);
    remember(request, known);
    return startContext(request, "target");
  };

  test("is nothing but hop 0 without the headers", () => {
    expect(context({})).toEqual({ hop: 0, idempotency: undefined });
  });

  test("is the claim on its key, over the body as it was sent", () => {
    expect(context({ "idempotency-key": "k", "x-service-hop": "3" }, '{ "a": 1 }')).toEqual({
      hop: 3,
      idempotency: {
        scope: "api/target",
        key: "k",
        request_hash: sha256Hex('{ "a": 1 }'),
        expires_at: NOW + CLAIM_MS,
      },
    });
  });

  test("does not include the headers of webhook senders", () => {
    expect(context({ "webhook-id": "k" }).idempotency).toBeUndefined();
  });
});
