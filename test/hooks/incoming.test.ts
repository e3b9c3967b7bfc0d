import { beforeEach, describe, expect, test } from "bun:test";
import { makeHookToken } from "../../src/hooks/token.ts";
import { withChecksum } from "../../src/lib/secrets.ts";
import { settled } from "../helpers/clock.ts";
import { setup } from "./world.ts";

let world: Awaited<ReturnType<typeof setup>>;
let workflow: string;
let token: string;

beforeEach(async () => {
  world = await setup();
  workflow = world.aTarget();
  token = (await world.hookTokens.admin.create("workflows", workflow)).token;
});

const fire = (query: string, authorization?: string, id = workflow, body: unknown = {}) =>
  world.send("POST", `/webhooks/workflows/${id}${query}`, {
    body,
    headers: authorization === undefined ? {} : { authorization },
  });

const basic = (pair: string) => `Basic ${Buffer.from(pair).toString("base64")}`;

/** The refusal without its request id, which alone may differ. */
const refusal = ({ status, body }: { status: number; body: { error: { request_id: string } } }) => {
  const { request_id: _, ...error } = body.error;
  return { status, ...body, error };
};
const REFUSED = {
  status: 401,
  success: false,
  error: { code: "UNAUTHORIZED", message: "A valid webhook token is required." },
};

describe("authentication of an incoming webhook", () => {
  test("the token opens by query, as Bearer in any case, and as the password of any Basic user", async () => {
    for (const [query, header] of [
      [`?token=${token}`],
      [`?a=b&token=${token}&c=d`],
      [`?token=${token.replace("eht_", "eht%5F")}`],
      ["", `Bearer ${token}`],
      ["", `bearer ${token}`],
      ["", basic(`anyone:${token}`)],
      ["", basic(`:${token}`)],
      ["", basic(`anyone:${token}`).replace("Basic", "BASIC")],
      [`?token=${token}`, `Bearer ${token}`],
      [`?token=${token}&token=${token}`, basic(`x:${token}`)],
    ]) {
      expect([query, header, (await fire(query!, header)).status]).toEqual([query!, header!, 202]);
    }
  });

  test("every malformed Authorization header gets the same answer", async () => {
    const forms = [
      "Bearer",
      "Bearer ",
      `Bearer  ${token}`,
      `Bearer ${token} `.concat("x"),
      `Bearer ${token} ${token}`,
      `Bearer ${token},${token}`,
      `Bearer ${token}, Bearer ${token}`,
      `Bearer ${token}, ${basic(`a:${token}`)}`,
      `Bearer\t${token}`,
      `Bearer:${token}`,
      `Bearer=${token}`,
      `BearerX ${token}`,
      `XBearer ${token}`,
      `Bearer "${token}"`,
      `Bearer token=${token}`,
      `Bearer ${token.slice(0, -1)}`,
      `Bearer ${token}0`,
      `Bearer ${token.toUpperCase()}`,
      `Bearer ${token.slice(4)}`,
      `Bearer erk_${token.slice(4)}`,
      "Bearer null",
      "Bearer undefined",
      "Bearer []",
      "Bearer {}",
      "Bearer %00",
      "Bearer *",
      `Bearer ${"a".repeat(4_000)}`,
      `Bearer ${makeHookToken()}`,
      `Token ${token}`,
      `Digest username="${token}"`,
      `Negotiate ${token}`,
      token,
      "Basic",
      "Basic ",
      `Basic ${token}`,
      basic(token),
      basic(`${token}:`),
      basic(`a:${token}:`),
      basic(`a: ${token}`),
      basic(`a:${token}\n`),
      `${basic(`a:${token}`)}=`,
      `${basic(`a:${token}`)}!`,
      `Basic  ${btoa(`a:${token}`)}`,
      `Basic ${btoa(`a:${token}`)}, ${basic(`a:${token}`)}`,
      basic(":"),
      basic(""),
    ];
    expect(forms.length).toBeGreaterThanOrEqual(40);
    for (const form of forms) expect([form, refusal(await fire("", form))]).toEqual([form, REFUSED]);
    expect(world.accepted()).toBe(0);
  });

  test("no token, an empty one and a list of them are refused alike", async () => {
    for (const query of [
      "",
      "?",
      "?token",
      "?token=",
      "?token[]=x",
      `?token[]=${token}`,
      `?token=${token},${token}`,
      `?token=${token}&token=`,
      `?token=&token=${token}`,
      `?token=${token}&token=${makeHookToken()}`,
      `?Token=${token}`,
      `?access_token=${token}`,
      `?token=%ff${token}`,
      `?token=${token}%00`,
      "?token=%",
      `?token=+${token}`,
    ]) {
      expect([query, refusal(await fire(query))]).toEqual([query, REFUSED]);
    }
  });

  test("one wrong credential beside a right one is refused", async () => {
    expect((await fire(`?token=${token}`, "Bearer wrong")).status).toBe(401);
    expect((await fire(`?token=${makeHookToken()}`, `Bearer ${token}`)).status).toBe(401);
    expect((await fire(`?token=${token}`, basic("a:b"))).status).toBe(401);
    expect((await fire(`?token=${token}`, "")).status).toBe(401);
  });

  test("two live tokens of one target open it together", async () => {
    const second = (await world.hookTokens.admin.create("workflows", workflow)).token;
    expect((await fire(`?token=${token}`, `Bearer ${second}`)).status).toBe(202);
  });

  test("an unknown target, a deleted one and a token of another target cannot be told apart", async () => {
    const elsewhere = world.aTarget(world.other);
    const agent = world.aTarget();
    const forAgent = (await world.hookTokens.admin.create("agents", agent)).token;
    expect(refusal(await fire(`?token=${token}`, undefined, elsewhere))).toEqual(REFUSED);
    expect(refusal(await fire(`?token=${token}`, undefined, crypto.randomUUID()))).toEqual(REFUSED);
    expect(refusal(await fire(`?token=${token}`, undefined, "no-id"))).toEqual(REFUSED);
    expect(refusal(await fire(`?token=${forAgent}`, undefined, agent))).toEqual(REFUSED);
    world.forget(workflow);
    expect(refusal(await fire(`?token=${token}`))).toEqual(REFUSED);
  });

  test("an unknown target and a wrong token take the same look-ups", async () => {
    const reads: string[] = [];
    const get = world.db.get.bind(world.db);
    world.db.get = ((sql: string, ...values: never[]) => {
      reads.push(sql);
      return get(sql, ...values);
    }) as typeof world.db.get;
    const wrong = makeHookToken();
    await fire(`?token=${wrong}`);
    const known = reads.splice(0);
    await fire(`?token=${wrong}`, undefined, crypto.randomUUID());
    expect(reads).toEqual(known);
    expect(known).toHaveLength(1);
  });

  test("a token that cannot exist is refused without a look-up", async () => {
    world.db.get = () => {
      throw new Error("looked up");
    };
    const mistyped = `${token.slice(0, 20)}${token[20] === "a" ? "b" : "a"}${token.slice(21)}`;
    expect((await fire(`?token=${mistyped}`)).status).toBe(401);
    expect((await fire(`?token=${withChecksum("eht_short")}`)).status).toBe(401);
  });

  test("a revoked and an expired token are refused from the next request on", async () => {
    const { id } = (await world.hookTokens.admin.list("workflows", workflow))[0]!;
    const brief = await world.hookTokens.admin.create("workflows", workflow, {
      expires_at: "2026-01-01T00:01:00Z",
    });
    expect((await fire(`?token=${brief.token}`)).status).toBe(202);
    await world.clock.advance(60_000);
    expect(refusal(await fire(`?token=${brief.token}`))).toEqual(REFUSED);
    expect((await fire(`?token=${token}`)).status).toBe(202);
    await world.hookTokens.admin.revoke(id);
    expect(refusal(await fire(`?token=${token}`))).toEqual(REFUSED);
  });

  test("a wrong body tells nothing to a caller without a token", async () => {
    expect(refusal(await fire("", undefined, workflow, { input_data: 7 }))).toEqual(REFUSED);
  });

  test("the last use is on record, at most once a minute", async () => {
    const lastUse = async () => (await world.hookTokens.admin.list("workflows", workflow))[0]!.last_used_at;
    expect(await lastUse()).toBeNull();
    await Promise.all([fire(`?token=${token}`), fire(`?token=${token}`)]);
    await settled();
    expect(await lastUse()).toBe("2026-01-01T00:00:00.000Z");
    await world.clock.advance(59_000);
    await fire(`?token=${token}`);
    await settled();
    expect(await lastUse()).toBe("2026-01-01T00:00:00.000Z");
    await world.clock.advance(1_000);
    await fire(`?token=${token}`);
    await settled();
    expect(await lastUse()).toBe("2026-01-01T00:01:00.000Z");
  });
});

describe("what an incoming webhook takes", () => {
  let agent: string;
  let agentToken: string;
  beforeEach(async () => {
    agent = world.aTarget();
    agentToken = (await world.hookTokens.admin.create("agents", agent)).token;
  });
  const tell = (body: unknown, headers: Record<string, string> = {}) =>
    world.send("POST", `/webhooks/agents/${agent}?token=${agentToken}`, { body, headers });

  test("a workflow gets its input, the sender's name and the metadata", async () => {
    const body = {
      input_data: { name: "Ada" },
      trigger_source: "shop",
      metadata: { order: 7 },
      event: "paid",
    };
    const answer = await fire(`?token=${token}`, undefined, workflow, body);
    const { target, request } = world.started[0]!;
    expect([target, request]).toMatchObject([
      workflow,
      { input: { name: "Ada" }, source: "shop", metadata: { order: 7 }, hop: 0 },
    ]);
    expect(request.idempotency).toBeUndefined();
    expect(answer.status).toBe(202);
    expect(Object.keys(answer.body)).toEqual([
      "success",
      "message",
      "execution_id",
      "status",
      "estimated_completion",
    ]);
    expect(answer.body).toMatchObject({
      success: true,
      status: "queued",
      estimated_completion: "2026-01-01T00:00:01.000Z",
    });
  });

  test("a workflow runs without any body", async () => {
    const answer = await world.send("POST", `/webhooks/workflows/${workflow}?token=${token}`);
    expect(answer.status).toBe(202);
    expect(world.started[0]!.request).toMatchObject({ input: {}, source: "webhook", metadata: {} });
  });

  test("an agent gets the message, who says it and the context", async () => {
    const answer = await tell({
      message: "Hi",
      user_id: "u1",
      metadata: { a: 1 },
      context: { conversation_id: "c" },
    });
    expect(answer.status).toBe(202);
    expect(world.started[0]).toMatchObject({
      target: agent,
      request: {
        message: "Hi",
        user_id: "u1",
        metadata: { a: 1 },
        context: { conversation_id: "c" },
        source: "webhook",
      },
    });
  });

  test("a fault is named by field, with what was expected and what came", async () => {
    for (const [body, details] of [
      [{}, { field: "message", received: "nothing" }],
      [undefined, { field: "message", received: "nothing" }],
      [{ message: "" }, { field: "message", expected: "at least 1 character", received: "empty text" }],
      [{ message: 7 }, { field: "message", expected: "string", received: "number" }],
      [{ message: ["a"] }, { field: "message", expected: "string", received: "array of 1" }],
      [
        { message: "a", user_id: null },
        { field: "user_id", expected: "string", received: "null" },
      ],
      [
        { message: "a", metadata: [] },
        { field: "metadata", expected: "object", received: "array of 0" },
      ],
      [
        { message: "a", context: "x" },
        { field: "context", expected: "object", received: "string" },
      ],
      [[], { field: "", expected: "object", received: "array of 0" }],
      [null, { field: "", expected: "object", received: "null" }],
      ["text", { field: "", expected: "object", received: "string" }],
    ] as const) {
      const answer = await tell(body);
      expect(answer.text.startsWith('{"success":false,"error":{"code":"INVALID_INPUT"')).toBe(true);
      expect([body, answer.status, answer.body.error.details]).toMatchObject([body!, 400, details]);
    }
    expect(
      (await fire(`?token=${token}`, undefined, workflow, { input_data: [] })).body.error.details,
    ).toMatchObject({
      field: "input_data",
      expected: "object",
    });
    expect(world.accepted()).toBe(0);
  });

  test("the hop of the sender goes on, and a loop is refused", async () => {
    const withHop = (hop: string) => tell({ message: "a" }, { "x-service-hop": hop });
    expect((await withHop("8")).status).toBe(202);
    expect(world.started[0]!.request.hop).toBe(8);
    expect(await withHop("9")).toMatchObject({
      status: 409,
      body: { success: false, error: { code: "CONFLICT" } },
    });
    for (const odd of ["", "-1", "1.5", "x", "1, 1", "0x1", "9".repeat(10)]) {
      expect([odd, (await withHop(odd)).status]).toEqual([odd, 400]);
    }
  });
});

describe("a repeated incoming webhook", () => {
  const again = (headers: Record<string, string>, body: unknown = { input_data: { n: 1 } }) =>
    world.send("POST", `/webhooks/workflows/${workflow}?token=${token}`, { body, headers });

  test("gets the first answer again, by any of the senders' headers", async () => {
    for (const name of ["idempotency-key", "webhook-id", "x-github-delivery", "x-shopify-webhook-id"]) {
      const before = world.accepted();
      const first = await again({ [name]: `key of ${name}` });
      await world.clock.advance(1_000);
      const second = await again({ [name]: `key of ${name}` });
      expect([first.status, second.status, second.text]).toEqual([202, 202, first.text]);
      expect(first.headers.get("idempotent-replay")).toBeNull();
      expect(second.headers.get("idempotent-replay")).toBe("true");
      expect(world.accepted()).toBe(before + 1);
    }
  });

  test("with another body is a conflict, and starts nothing", async () => {
    await again({ "idempotency-key": "k" });
    const other = await again({ "idempotency-key": "k" }, { input_data: { n: 2 } });
    expect(other).toMatchObject({ status: 409, body: { success: false, error: { code: "CONFLICT" } } });
    expect(world.accepted()).toBe(1);
  });

  test("starts one run however many arrive at once", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => again({ "webhook-id": "msg_1" })));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("idempotent-replay") === null)).toHaveLength(1);
    expect(world.accepted()).toBe(1);
  });

  test("is new again a day later", async () => {
    await again({ "idempotency-key": "k" });
    await world.clock.advance(24 * 3_600_000 - 1);
    expect((await again({ "idempotency-key": "k" })).headers.get("idempotent-replay")).toBe("true");
    await world.clock.advance(1);
    expect((await again({ "idempotency-key": "k" })).headers.get("idempotent-replay")).toBeNull();
    expect(world.accepted()).toBe(2);
  });

  test("is told from a request with the same key to another target", async () => {
    const second = world.aTarget();
    const other = (await world.hookTokens.admin.create("workflows", second)).token;
    await again({ "idempotency-key": "k" });
    await world.send("POST", `/webhooks/workflows/${second}?token=${other}`, {
      body: {},
      headers: { "idempotency-key": "k" },
    });
    expect(world.accepted()).toBe(2);
  });

  test("needs a key of 1 to 255 characters", async () => {
    expect((await again({ "idempotency-key": "x".repeat(255) })).status).toBe(202);
    for (const key of ["", "x".repeat(256)]) {
      const answer = await again({ "idempotency-key": key });
      expect([answer.status, answer.body.error.details.field]).toEqual([400, "idempotency-key"]);
    }
  });
});
