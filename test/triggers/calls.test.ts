import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { settled } from "../helpers/clock.ts";
import { MAX_BODY, world } from "./world.ts";

const CODES: Record<number, string> = {
  400: "INVALID_INPUT",
  413: "PAYLOAD_TOO_LARGE",
  415: "UNSUPPORTED_MEDIA_TYPE",
};
const TEXT = { body: "Hi", type: "text/plain" };

describe("a call of a trigger", () => {
  test("is told to the agent whatever its method, once it is on disk", async () => {
    const { aTrigger, messages } = world();
    const { fire } = await aTrigger({ task: { message: "{{ event.method }} {{ event.body }}" } });
    const methods = ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"];
    for (const method of methods) expect([method, (await fire(TEXT, method)).status]).toEqual([method, 202]);
    expect((await fire({}, "GET")).status).toBe(202);
    expect(messages()).toEqual([...methods.map((method) => `${method} Hi`), "GET "]);
  });

  test("by GET with a query alone is told by its query", async () => {
    const { aTrigger, messages, send } = world();
    const { at } = await aTrigger();
    const answer = await send("GET", `${at}?city=London&tag=a&tag=b`);
    expect([answer.status, answer.body]).toEqual([
      202,
      {
        success: true,
        message: "The message was queued for the agent.",
        execution_id: expect.any(String),
        status: "queued",
        estimated_completion: expect.any(String),
      },
    ]);
    expect(messages()).toEqual(['{"city":"London","tag":["a","b"]}']);
    for (const method of ["POST", "PUT", "PATCH", "DELETE"])
      expect([method, (await send(method, `${at}?by=${method}`)).status]).toEqual([method, 202]);
    expect(messages().slice(1)).toEqual(
      ["POST", "PUT", "PATCH", "DELETE"].map((by) => JSON.stringify({ by })),
    );
  });

  test("is the same by the framework as past it, with a slash at the end as without", async () => {
    for (const direct of [true, false]) {
      const { aTrigger, messages, send } = world({ direct });
      const { at } = await aTrigger({ auth: { type: "bearer", token: "t0ken" } });
      const sent = { ...TEXT, headers: { authorization: "Bearer t0ken", "webhook-id": "1" } };
      const odd = at.replace("webhook/", "webhook/%30");
      const upper = at.replace(/[0-9a-f-]{36}/, (path) => path.toUpperCase());
      const statuses = [];
      for (const path of [at, `${at}/`, upper]) statuses.push((await send("POST", path, sent)).status);
      expect([direct, statuses]).toEqual([direct, [202, 202, 202]]);
      expect((await send("POST", odd, sent)).status).toBe(401);
      expect((await send("POST", at, TEXT)).status).toBe(401);
      expect(messages()).toEqual(["Hi"]);
    }
  });

  test("by HEAD or OPTIONS starts nothing and tells nobody whether there is such a trigger", async () => {
    const { aTrigger, send, messages } = world();
    const { at } = await aTrigger();
    for (const path of [at, `/agents/webhook/${crypto.randomUUID()}/trigger`]) {
      const head = await send("HEAD", path);
      expect([head.status, head.text]).toEqual([204, ""]);
      const options = await send("OPTIONS", path);
      expect([options.status, options.headers.get("allow")]).toEqual([
        204,
        "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
      ]);
      expect([400, 405]).toContain((await send("TRACE", path).catch(() => ({ status: 405 }))).status);
    }
    expect(messages()).toEqual([]);
  });

  test("is held to its method, once its sender is known", async () => {
    const { aTrigger, messages } = world();
    const { fire } = await aTrigger({ auth: { type: "bearer", token: "t0ken" }, config: { method: "PUT" } });
    expect((await fire(TEXT, "POST")).status).toBe(401);
    const known = { ...TEXT, headers: { authorization: "Bearer t0ken" } };
    const wrong = await fire(known, "POST");
    expect([wrong.status, wrong.headers.get("allow"), wrong.body.error.code]).toEqual([
      405,
      "PUT",
      "METHOD_NOT_ALLOWED",
    ]);
    expect((await fire(known, "PUT")).status).toBe(202);
    expect(messages()).toEqual(["Hi"]);
  });

  test("is answered as its response_code says, without a body where that has none", async () => {
    const { aTrigger } = world();
    for (const response_code of [200, 201, 202, 204, 205, 299]) {
      const { fire, events } = await aTrigger({ config: { response_code } });
      const answer = await fire({ ...TEXT, headers: { "idempotency-key": "k" } });
      const isBare = response_code === 204 || response_code === 205;
      expect([answer.status, answer.text === ""]).toEqual([response_code, isBare]);
      const again = await fire({ ...TEXT, headers: { "idempotency-key": "k" } });
      expect([again.status, again.headers.get("idempotent-replay"), again.text]).toEqual([
        response_code,
        "true",
        answer.text,
      ]);
      expect(await events()).toMatchObject([
        { response: { status: response_code, body: { success: true } } },
      ]);
    }
  });

  test("takes JSON, forms, multipart, XML, text and bytes", async () => {
    const { aTrigger, messages } = world();
    const { fire } = await aTrigger();
    const part = '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\né\r\n';
    const file =
      '--b\r\ncontent-disposition: form-data; name="f"; filename="x.png"\r\ncontent-type: image/png\r\n\r\nPNG\r\n';
    for (const [body, type] of [
      ['{"a":[1,null]}', "application/json"],
      ['{"a":1}', "application/cloudevents+json"],
      ['"word"', "application/json"],
      ["a=1&b=x+y&a=2", "application/x-www-form-urlencoded"],
      [`${part}--b--\r\n`, "multipart/form-data; boundary=b"],
      [`${part}${file}--b--\r\n`, "multipart/form-data; boundary=b"],
      ["<a>é</a>", "application/xml"],
      ["plain", "text/plain; charset=utf-8"],
      ["untyped", null],
      [Buffer.from([65, 255, 66]), "application/octet-stream"],
    ] as const) {
      expect([type, (await fire({ body, type })).status]).toEqual([type, 202]);
    }
    expect(messages()).toEqual([
      '{"a":[1,null]}',
      '{"a":1}',
      "word",
      '{"a":["1","2"],"b":"x y"}',
      '{"a":"é"}',
      '{"a":"é","f":{"filename":"x.png","type":"image/png","size":3}}',
      "<a>é</a>",
      "plain",
      "untyped",
      "A\ufffdB",
    ]);
  });

  test("that is not what its type says, is too large, or has nothing to say is refused and starts nothing", async () => {
    const { aTrigger, storage } = world();
    const { fire, events } = await aTrigger();
    const cases: [unknown, string, number][] = [
      ["{", "application/json", 400],
      ["a=1", "application/json", 400],
      ["x", "multipart/form-data; boundary=b", 400],
      ["{}", "multipart/form-data", 400],
      ["é", "text/plain; charset=latin1", 415],
      [`{"__proto__":{"a":1}}`, "application/json", 400],
      ["[".repeat(65) + "]".repeat(65), "application/json", 400],
      ["x".repeat(MAX_BODY + 1), "text/plain", 413],
      [undefined, "text/plain", 400],
      ["  \n", "text/plain", 400],
      ["null", "application/json", 400],
    ];
    for (const [body, type, status] of cases) {
      const answer = await fire({ body, type });
      expect([type, String(body).slice(0, 20), answer.status]).toEqual([
        type,
        String(body).slice(0, 20),
        status,
      ]);
      expect(answer.body).toMatchObject({ success: false, error: { code: expect.any(String) } });
    }
    expect(storage.reader.all("SELECT * FROM turns")).toEqual([]);
    await settled();
    expect((await events()).map(({ status, error }) => [status, error.code])).toEqual(
      cases.map(([, , status]) => ["rejected", CODES[status]]).reverse(),
    );
  });

  test("with a query whose percent signs spell no UTF-8 is refused, to those who are known", async () => {
    const { aTrigger, send, messages } = world();
    const { at } = await aTrigger({ auth: { type: "bearer", token: "t0ken" } });
    const headers = { authorization: "Bearer t0ken" };
    for (const query of ["a=%ff", "%C3=1", "a=1&b=%E2%82"]) {
      const answer = await send("GET", `${at}?${query}`, { headers });
      expect([query, answer.status, answer.body.error.faults?.[0].field]).toEqual([query, 400, "query"]);
      expect((await send("GET", `${at}?${query}`)).status).toBe(401);
    }
    expect(messages()).toEqual([]);
    expect((await send("GET", `${at}?a=%C3%A9%zz`, { headers })).status).toBe(202);
  });

  test("whose sender is not known is refused as such before a word about its body", async () => {
    const { aTrigger, send } = world();
    const WRONG: [unknown, string, number][] = [
      ["{", "application/json", 400],
      ["é", "text/plain; charset=latin1", 415],
      ["x".repeat(MAX_BODY + 1), "text/plain", 413],
    ];
    const right = {
      bearer: [{ token: "t0ken" }, { authorization: "Bearer t0ken" }],
      basic: [{ username: "u", password: "p4ss" }, { authorization: `Basic ${btoa("u:p4ss")}` }],
      header: [{ name: "x-token", value: "v4lue" }, { "x-token": "v4lue" }],
    } as const;
    for (const [type, [fields, headers]] of Object.entries(right)) {
      const { at, events } = await aTrigger({ auth: { type, ...fields } });
      for (const [body, media, status] of WRONG) {
        const asked = { body, type: media };
        expect([type, (await send("POST", at, asked)).status]).toEqual([type, 401]);
        expect([type, (await send("POST", at, { ...asked, headers })).status]).toEqual([type, status]);
        const unknown = at.replace(/[0-9a-f-]{36}/, crypto.randomUUID());
        expect((await send("POST", unknown, { ...asked, headers })).status).toBe(401);
      }
      await settled();
      const seen = (await events()).map(({ response, request }) => [response.status, request.body]);
      expect(seen.reverse()).toEqual(
        WRONG.flatMap(([, , status]) => [
          [401, null],
          [status, null],
        ]),
      );
    }
  });

  test("that is signed may say what is wrong with its body where the signature can be looked at", async () => {
    const { aTrigger } = world();
    const { fire, events } = await aTrigger({ auth: { type: "github", secret: "s3cret-of-some-length" } });
    const sign = (body: string) => ({
      "x-hub-signature-256": `sha256=${createHmac("sha256", "s3cret-of-some-length").update(body).digest("hex")}`,
    });
    const answers = [];
    for (const body of ["{", "x".repeat(MAX_BODY + 1)])
      answers.push((await fire({ body, headers: sign(body) })).status, (await fire({ body })).status);
    expect(answers).toEqual([400, 401, 401, 401]);
    await settled();
    expect((await events()).map(({ error }) => error.message)[1]).toContain("its body was not read: ");
  });

  test("goes on with the hop of its sender, and a loop is refused", async () => {
    const { aTrigger, storage } = world();
    const { fire } = await aTrigger();
    const withHop = async (hop: string) =>
      (await fire({ ...TEXT, headers: { "x-service-hop": hop } })).status;
    expect([await withHop("8"), await withHop("9"), await withHop("x")]).toEqual([202, 409, 400]);
    expect(storage.reader.all("SELECT hop FROM turns")).toEqual([{ hop: 8 }]);
  });
});

describe("the message of a trigger", () => {
  test("is made of the request, once", async () => {
    const { aTrigger, messages, send } = world();
    const { at } = await aTrigger({
      task: {
        message:
          "{{ event.headers.x-github-event }} on {{ event.body.repository.full_name }}: {% for c in event.body.commits %}{{ c.message }};{% endfor %} {{ event.query.q }}",
      },
    });
    const body = {
      repository: { full_name: "a/b" },
      commits: [{ message: "{{ event.path }}" }, { message: "two" }],
    };
    const headers = { "x-github-event": "push" };
    expect((await send("POST", `${at}?q=1`, { body, headers })).status).toBe(202);
    expect(messages()).toEqual(["push on a/b: {{ event.path }};two; 1"]);
  });

  test("that refers to what a request lacks refuses the request, and the record says why", async () => {
    const { aTrigger, messages } = world();
    const { fire, events } = await aTrigger({ task: { message: "Order {{ event.body.order.id }}" } });
    const answer = await fire({ body: { order: {} } });
    expect([answer.status, answer.body.error.code, answer.body.error.details.field]).toEqual([
      400,
      "INVALID_INPUT",
      "body",
    ]);
    expect(answer.body.error.message).toContain("event.body.order.id");
    await settled();
    expect(await events()).toMatchObject([
      {
        status: "rejected",
        request: { body: { order: {} } },
        response: { status: 400 },
        error: { code: "INVALID_INPUT", message: expect.stringContaining("event.body.order.id") },
        conversation_id: null,
        completed_at: "2026-01-01T00:00:00.000Z",
      },
    ]);
    expect(messages()).toEqual([]);
  });

  test("that comes to nothing leaves the request out: answered well, recorded, told to nobody", async () => {
    const { aTrigger, messages } = world();
    const { fire, events } = await aTrigger({
      task: {
        conversation_id: "issue-{{ event.body.n }}",
        message: "{% if event.body.action == 'opened' %}Opened {{ event.body.n }}{% endif %}",
      },
    });
    const left = await fire({ body: { action: "closed" } });
    expect([left.status, left.body]).toMatchObject([
      202,
      { success: true, status: "ignored", execution_id: null },
    ]);
    expect((await fire({ body: { action: "opened", n: 7 } })).body.status).toBe("queued");
    expect(messages()).toEqual(["Opened 7"]);
    expect((await events("?status=completed")).map(({ response }) => response.body.status)).toContain(
      "ignored",
    );
  });

  test("goes into the conversation that its template names, else into a new one", async () => {
    const { aTrigger, storage } = world();
    const { fire } = await aTrigger({ task: { conversation_id: "issue-{{ event.body.issue }}" } });
    for (const issue of [1, 2, 1]) await fire({ body: { issue } });
    const rows = storage.reader.all<{ client_id: string; n: number }>(
      "SELECT client_id, message_count AS n FROM conversations ORDER BY client_id",
    );
    expect(rows.map(({ client_id }) => client_id)).toEqual(["issue-1", "issue-2"]);
    const plain = await aTrigger();
    for (let n = 0; n < 2; n++) await plain.fire();
    expect(
      storage.reader.all("SELECT id FROM conversations WHERE agent_id = ?", plain.agent_id),
    ).toHaveLength(2);
    const long = await fire({ body: { issue: "x".repeat(1_000) } });
    expect([long.status, long.body.error.code]).toEqual([400, "INVALID_INPUT"]);
  });

  test("cannot be made to run what a request says", async () => {
    const { aTrigger, messages } = world();
    const { fire } = await aTrigger();
    const texts = fc
      .sample(fc.string({ unit: "grapheme", minLength: 1 }), 30)
      .filter((text) => text.trim() !== "");
    for (const text of [...texts, "{{ event.headers }}", "{% raw %}", "{{ 'x' | upcase }}"]) {
      await fire({ body: text, type: "text/plain" });
      expect(messages().at(-1)).toBe(text);
    }
  });
});

describe("a repeated call", () => {
  const repeat = async (
    fire: (
      headers: Record<string, string>,
      body?: string,
    ) => Promise<{ status: number; text: string; headers: Headers }>,
    name: string,
  ) => {
    const first = await fire({ [name]: "id-1" });
    const again = await fire({ [name]: "id-1" });
    expect([name, again.status, again.text, again.headers.get("idempotent-replay")]).toEqual([
      name,
      first.status,
      first.text,
      "true",
    ]);
    expect([name, (await fire({ [name]: "id-1" }, "other")).status]).toEqual([name, 409]);
    expect([name, (await fire({ [name]: "id-2" })).headers.get("idempotent-replay")]).toEqual([name, null]);
  };

  test("gets the first answer again, by any of the senders' headers", async () => {
    const { aTrigger } = world();
    for (const name of ["idempotency-key", "webhook-id", "x-github-delivery", "x-shopify-webhook-id"]) {
      const trigger = await aTrigger();
      await repeat((headers, body = "Hi") => trigger.fire({ body, type: "text/plain", headers }), name);
      expect(await trigger.events("?status=accepted")).toBeArray();
    }
  });

  test("of a signed one is known by the sender's own id, whatever else is added", async () => {
    const { aTrigger, messages, clock } = world();
    const github = await aTrigger({ auth: { type: "github", secret: "s3cret" } });
    const of = (body: string, more: Record<string, string>) => ({
      body,
      headers: {
        "x-hub-signature-256": `sha256=${createHmac("sha256", "s3cret").update(body).digest("hex")}`,
        "x-github-delivery": "d-1",
        ...more,
      },
    });
    await github.fire(of('{"a":1}', {}));
    const replayed = await github.fire(of('{"a":1}', { "idempotency-key": crypto.randomUUID() }));
    expect(replayed.headers.get("idempotent-replay")).toBe("true");

    const stripe = await aTrigger({ auth: { type: "stripe", secret: "whsec_x" } });
    const event = (pending_webhooks: number) => {
      const body = JSON.stringify({ id: "evt_1", pending_webhooks });
      const t = Math.floor(clock.now() / 1_000);
      const v1 = createHmac("sha256", "whsec_x").update(`${t}.${body}`).digest("hex");
      return stripe.fire({ body, headers: { "stripe-signature": `t=${t},v1=${v1}` } });
    };
    const first = await event(2);
    expect((await event(1)).text).toBe(first.text);
    expect(messages()).toHaveLength(2);
  });

  test("tells the agent once however many arrive at once, and is new again a day later", async () => {
    const { aTrigger, messages, clock } = world();
    const { fire, events } = await aTrigger();
    const sent = { ...TEXT, headers: { "webhook-id": "msg_1" } };
    const answers = await Promise.all(Array.from({ length: 20 }, () => fire(sent)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(messages()).toHaveLength(1);
    expect(await events()).toHaveLength(1);
    await clock.advance(24 * 3_600_000);
    expect((await fire(sent)).headers.get("idempotent-replay")).toBeNull();
    for (const key of ["", "x".repeat(256)])
      expect((await fire({ ...TEXT, headers: { "idempotency-key": key } })).status).toBe(400);
  });
});

describe("a trigger that is not active", () => {
  test("says so to those it knows, to the others what it always says, and records both", async () => {
    const { aTrigger, messages } = world();
    const { fire, put, events } = await aTrigger({ auth: { type: "bearer", token: "t0ken" } });
    await put({ is_active: false });
    const known = await fire({ ...TEXT, headers: { authorization: "Bearer t0ken" } });
    expect([known.status, known.body.error]).toMatchObject([
      409,
      { code: "CONFLICT", message: "This trigger is not active." },
    ]);
    const stranger = await fire(TEXT);
    expect([stranger.status, stranger.text.includes("active")]).toEqual([401, false]);
    await settled();
    expect((await events()).map(({ error, request }) => [error.code, error.message, request.body])).toEqual([
      ["UNAUTHORIZED", "the Authorization header is missing", null],
      ["CONFLICT", "This trigger is not active.", "Hi"],
    ]);
    await put({ is_active: true });
    expect((await fire({ ...TEXT, headers: { authorization: "Bearer t0ken" } })).status).toBe(202);
    expect(messages()).toEqual(["Hi"]);
  });
});

describe("a limit of calls a minute", () => {
  test("counts each trigger by itself, tells when to come again, and strangers use none of it up", async () => {
    const { aTrigger, clock } = world({ quota: 2 });
    const one = await aTrigger({ auth: { type: "bearer", token: "t0ken" } });
    const other = await aTrigger();
    const known = { ...TEXT, headers: { authorization: "Bearer t0ken" } };
    for (let n = 0; n < 5; n++) expect((await one.fire(TEXT)).status).toBe(401);
    const statuses = [];
    for (let n = 0; n < 3; n++) statuses.push((await one.fire(known)).status);
    expect(statuses).toEqual([202, 202, 429]);
    const refused = await one.fire(known);
    expect([refused.headers.get("retry-after"), refused.body.error.code]).toEqual(["60", "RATE_LIMITED"]);
    expect((await other.fire()).status).toBe(202);
    await clock.advance(60_000);
    expect((await one.fire(known)).status).toBe(202);
  });

  test("counts what is refused for its body, its method or for a pause too, and has it on record", async () => {
    const { aTrigger } = world({ quota: 2 });
    const broken = await aTrigger();
    const posted = await aTrigger({ config: { method: "POST" } });
    const paused = await aTrigger({ more: { is_active: false } });
    const tries = {
      400: () => broken.fire({ body: "{" }),
      405: () => posted.fire(TEXT, "PUT"),
      409: () => paused.fire(TEXT),
    };
    for (const [status, fire] of Object.entries(tries)) {
      const statuses = [];
      for (let n = 0; n < 3; n++) statuses.push((await fire()).status);
      expect(statuses).toEqual([Number(status), Number(status), 429]);
    }
    await settled();
    expect((await broken.events()).map(({ response }) => response.status)).toEqual([429, 400, 400]);
  });
});
