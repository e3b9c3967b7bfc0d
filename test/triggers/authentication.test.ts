import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { AUTHENTICATIONS } from "../../src/triggers/authentication/index.ts";
import { settled } from "../helpers/clock.ts";
import { world } from "./world.ts";

const hmac = (algorithm: string, key: string | Buffer, encoding: "hex" | "base64", ...parts: string[]) => {
  const made = createHmac(algorithm, key);
  for (const part of parts) made.update(part);
  return made.digest(encoding);
};

type Case = {
  config?: object;
  secrets: string[];
  now?: number;
  headers: Record<string, string>;
  body: string;
};

function refusal(type: string, { config = {}, secrets, now = 0, headers, body }: Case): string | undefined {
  const sent = { headers: new Headers(headers), body: Buffer.from(body) };
  return AUTHENTICATIONS.get(type)!.refusal(sent, { config: config as never, secrets, now: now * 1_000 });
}

describe("what providers publish", () => {
  test("GitHub's example is recognised", () => {
    const example = {
      secrets: ["It's a Secret to Everybody"],
      headers: {
        "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
      },
      body: "Hello, World!",
    };
    expect(refusal("github", example)).toBeUndefined();
    expect(refusal("github", { ...example, body: "Hello, World" })).toBe("the signature does not fit");
  });

  test("Slack's example is recognised at its time, and not five minutes later", () => {
    const example = {
      secrets: ["8f742231b10e8888abcd99yyyzzz85a5"],
      now: 1531420618,
      headers: {
        "X-Slack-Request-Timestamp": "1531420618",
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
      },
      body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    };
    expect(refusal("slack", example)).toBeUndefined();
    expect(refusal("slack", { ...example, now: example.now + 300 })).toBeUndefined();
    expect(refusal("slack", { ...example, now: example.now + 301 })).toBe("it was signed 301 s ago");
    expect(refusal("slack", { ...example, now: example.now - 301 })).toBe(
      "it was signed 301 s ahead of this clock",
    );
    expect(refusal("slack", { ...example, body: `${example.body}&x=1` })).toBe("the signature does not fit");
  });

  test("the example of Standard Webhooks is recognised", () => {
    const example = {
      secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
      now: 1614265330,
      headers: {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
      },
      body: '{"test": 2432232314}',
    };
    expect(refusal("standard_webhooks", example)).toBeUndefined();
    expect(refusal("standard_webhooks", { ...example, body: '{"test": 2432232315}' })).toBe(
      "the signature does not fit",
    );
  });
});

describe("what libraries sign", () => {
  const secret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;
  const now = 1_700_000_000;
  const at = new Date(now * 1_000);
  const body = '{"a":"é"}';

  test("standardwebhooks and svix are recognised, and the second of several signatures as well", () => {
    for (const [form, signature] of [
      ["webhook", new Webhook(secret).sign("msg_1", at, body)],
      ["svix", new SvixWebhook(secret).sign("msg_1", at, body)],
      ["webhook", `v1,AAAA v1a,x ${new Webhook(secret).sign("msg_1", at, body)}`],
    ] as const) {
      const headers = {
        [`${form}-id`]: "msg_1",
        [`${form}-timestamp`]: String(now),
        [`${form}-signature`]: signature,
      };
      const fitting = { secrets: [secret], now, headers, body };
      expect([form, refusal("standard_webhooks", fitting)]).toEqual([form, undefined]);
      expect(
        refusal("standard_webhooks", { ...fitting, headers: { ...headers, [`${form}-id`]: "msg_2" } }),
      ).toBe("the signature does not fit");
      expect(refusal("standard_webhooks", { ...fitting, now: now + 301 })).toBe("it was signed 301 s ago");
    }
  });

  test("Stripe's scheme is recognised with any of its v1 signatures, and by none of another scheme", () => {
    const key = "whsec_test_secret";
    const good = hmac("sha256", key, "hex", `${now}.${body}`);
    const fire = (header: string, at = now) =>
      refusal("stripe", { secrets: [key], now: at, headers: { "stripe-signature": header }, body });
    expect(fire(`t=${now},v1=${good}`)).toBeUndefined();
    expect(fire(`t=${now},v1=${"0".repeat(64)},v1=${good},v0=x`)).toBeUndefined();
    expect(fire(`t=${now},v0=${good}`)).toBe("the signature does not fit");
    expect(fire(`v1=${good}`)).toBe("the time of signing is missing");
    expect(fire(`t=${now + 1},v1=${good}`)).toBe("the signature does not fit");
    expect(fire(`t=${now},v1=${good}`, now + 400)).toBe("it was signed 400 s ago");
    expect(fire(`t=x,v1=${good}`)).toBe("the time of signing is not in epoch seconds");
    expect(fire("")).toBe("the time of signing is missing");
  });

  test("Shopify's scheme is recognised by its base64 alone", () => {
    const given = hmac("sha256", "hush", "base64", body);
    const fire = (signature: string) =>
      refusal("shopify", { secrets: ["hush"], headers: { "x-shopify-hmac-sha256": signature }, body });
    expect(fire(given)).toBeUndefined();
    expect(fire(given.toLowerCase())).toBe("the signature does not fit");
    expect(fire(hmac("sha256", "hush", "hex", body))).toBe("the signature does not fit");
  });
});

describe("an HMAC of one's own", () => {
  test("is recognised in each algorithm, encoding and with a prefix, and with a time when it is signed", () => {
    const now = 1_700_000_000;
    for (const algorithm of ["sha1", "sha256", "sha512"])
      for (const encoding of ["hex", "base64"] as const)
        for (const prefix of ["", "sha="])
          for (const timestamp_header of [undefined, "X-Time"]) {
            const config = {
              header: "X-Sig",
              algorithm,
              encoding,
              prefix,
              timestamp_header,
              tolerance_seconds: 10,
            };
            const parts = timestamp_header ? [`${now}.`, "body"] : ["body"];
            const headers: Record<string, string> = {
              "x-sig": prefix + hmac(algorithm, "s3", encoding, ...parts),
              ...(timestamp_header ? { "x-time": String(now) } : {}),
            };
            const fitting = { config, secrets: ["s3"], now, headers, body: "body" };
            expect([config, refusal("hmac", fitting)]).toEqual([config, undefined]);
            expect(refusal("hmac", { ...fitting, body: "other" })).toBeDefined();
            expect(refusal("hmac", { ...fitting, secrets: ["s4"] })).toBeDefined();
            if (timestamp_header) {
              expect(refusal("hmac", { ...fitting, now: now + 11 })).toBe("it was signed 11 s ago");
              const headers2 = { ...headers, "x-time": String(now + 1) };
              expect(refusal("hmac", { ...fitting, headers: headers2 })).toBe("the signature does not fit");
            }
          }
  });
});

describe("whatever is sent", () => {
  test("no type throws, and none recognises it by chance", () => {
    const value = fc.oneof(
      fc.string({ unit: "binary-ascii" }),
      fc.constantFrom("Bearer ", "Basic Og==", "v0=", "t=1,v1="),
    );
    const names = fc.constantFrom(
      ...["authorization", "x-sig", "x-time", "stripe-signature", "x-slack-signature", "webhook-id"],
      ...["x-slack-request-timestamp", "webhook-timestamp", "webhook-signature", "x-hub-signature-256"],
      ...["x-shopify-hmac-sha256", "x-key"],
    );
    const CONFIG = {
      header: "x-sig",
      algorithm: "sha256",
      encoding: "hex",
      prefix: "",
      tolerance_seconds: 300,
    };
    fc.assert(
      fc.property(
        fc.constantFrom(...AUTHENTICATIONS.keys()),
        fc.dictionary(names, value),
        fc.uint8Array(),
        (type, given, body) => {
          if (type === "none") return;
          const headers = new Headers();
          for (const [name, text] of Object.entries(given)) {
            try {
              headers.set(name, text);
            } catch {
              // No server hands on what is no header.
            }
          }
          const config = { ...CONFIG, name: "x-key", username: "u" };
          const proof = { config, secrets: ["whsec_c2VjcmV0LXNlY3JldA=="], now: 0 };
          expect(AUTHENTICATIONS.get(type)!.refusal({ headers, body }, proof)).toBeString();
        },
      ),
    );
  });
});

const REFUSED = {
  success: false,
  error: {
    code: "UNAUTHORIZED",
    message: "No trigger takes this request with these credentials.",
    request_id: expect.any(String),
  },
};

describe("a call with credentials in headers", () => {
  const basic = (pair: string) => `Basic ${btoa(pair)}`;
  const cases = [
    {
      auth: { type: "bearer", token: "open-sesame" },
      good: [{ authorization: "Bearer open-sesame" }, { authorization: "bearer open-sesame" }],
      bad: [
        {},
        { authorization: "Bearer " },
        { authorization: "Bearer" },
        { authorization: "open-sesame" },
        { authorization: "Bearer open-sesamE" },
        { authorization: "Bearer open-sesame, Bearer open-sesame" },
        { authorization: "Bearer  open-sesame" },
        { authorization: basic("x:open-sesame") },
        { "x-authorization": "Bearer open-sesame" },
      ],
    },
    {
      auth: { type: "basic", username: "ada", password: "löve:lace" },
      good: [{ authorization: `Basic ${Buffer.from("ada:löve:lace").toString("base64")}` }],
      bad: [
        {},
        { authorization: basic("ada:") },
        { authorization: basic("ada") },
        { authorization: basic(":love") },
        { authorization: "Basic !" },
        { authorization: "Bearer x" },
      ],
    },
    {
      auth: { type: "header", name: "X-Api-Key", value: "a b c" },
      good: [{ "x-api-key": "a b c" }],
      bad: [{}, { "x-api-key": "" }, { "x-api-key": "a b" }, { "x-api-key": "a b c, a b c" }],
    },
  ];

  test.each(cases)("of type $auth.type passes with the right ones alone", async ({ auth, good, bad }) => {
    const { aTrigger, messages } = world();
    const { fire } = await aTrigger({ auth });
    const sent = { body: "Hi", type: "text/plain" };
    for (const headers of good) {
      expect([headers, (await fire({ ...sent, headers: headers as Record<string, string> })).status]).toEqual(
        [headers, 202],
      );
    }
    for (const headers of bad) {
      const answer = await fire({ ...sent, headers: headers as Record<string, string> });
      expect([headers, answer.status, answer.body]).toEqual([headers, 401, REFUSED]);
    }
    expect(messages()).toHaveLength(good.length);
  });

  test("is refused in one and the same way for an unknown path, a foreign form of path and a deleted agent", async () => {
    const { aTrigger, send, agents } = world();
    const trigger = await aTrigger({ auth: { type: "bearer", token: "open-sesame" } });
    const headers = { authorization: "Bearer open-sesame" };
    expect((await trigger.fire({ body: "x", type: "text/plain", headers })).status).toBe(202);
    const answers = [
      await trigger.fire({ body: "x", type: "text/plain" }),
      await send("POST", `/agents/webhook/${crypto.randomUUID()}/trigger`, { headers }),
      await send("POST", `/agents/webhook/${trigger.id}/trigger`, { headers }),
      await send("POST", "/agents/webhook/not-a-uuid/trigger", { headers }),
      await send("GET", `/agents/webhook/${crypto.randomUUID()}/trigger`),
      await send("GET", `${trigger.at}?__proto__=1&%zz=%ff`),
    ];
    await agents.remove({ key_id: "k", workspace_id: "w", project_id: "p" }, trigger.agent_id);
    answers.push(await trigger.fire({ body: "x", type: "text/plain", headers }));
    for (const { status, body } of answers) expect([status, body]).toEqual([401, REFUSED]);
    const shapes = answers.map(({ headers }) =>
      [...headers.keys()].filter((name) => name !== "x-request-id").toSorted(),
    );
    expect(new Set(shapes.map(String)).size).toBe(1);
  });
});

describe("a signed call", () => {
  test("is verified over its bytes as they came, whatever its media type", async () => {
    const { aTrigger } = world();
    const auth = { type: "hmac", header: "X-Sig", secret: "s3cret" };
    const { fire } = await aTrigger({ auth, task: { message: "x" } });
    const bodies: [string | Uint8Array, string | null][] = [
      ['{ "b" : 1 ,"a":"\\u00e9" }', "application/json"],
      ["a=1&a=2&b=%C3%A9", "application/x-www-form-urlencoded"],
      ["<x>é</x>", "application/xml"],
      [Buffer.from([0, 255, 254, 128, 13, 10]), "application/octet-stream"],
      ["", null],
      [
        '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n',
        "multipart/form-data; boundary=b",
      ],
      [Buffer.from([0xef, 0xbb, 0xbf, 0x41]), "text/plain"],
    ];
    for (const [body, type] of bodies) {
      const signature = createHmac("sha256", "s3cret").update(body).digest("hex");
      const answer = await fire({ body, type, headers: { "x-sig": signature } });
      expect([type, answer.status]).toEqual([type, 202]);
      const other = await fire({ body, type, headers: { "x-sig": signature.replace(/^./, "g") } });
      expect([type, other.status]).toEqual([type, 401]);
    }
  });

  test("counts by the old secret for as long as a rotation overlaps, and by the new one from the start", async () => {
    const { aTrigger, call, clock } = world();
    const { id, fire, record } = await aTrigger({ auth: { type: "github", secret: "first" } });
    expect(record.secret).toBeUndefined();
    const by = async (secret: string) => {
      const body = JSON.stringify({ n: Math.random() });
      const headers = { "x-hub-signature-256": `sha256=${hmac("sha256", secret, "hex", body)}` };
      return (await fire({ body, headers })).status;
    };
    const rotated = await call("POST", `/agents/triggers/${id}/rotate-secret`, { secret: "second" });
    expect([rotated.status, rotated.body.secret]).toEqual([200, undefined]);
    expect(rotated.body.previous_secret_until).toBe("2026-01-02T00:00:00.000Z");
    expect([await by("first"), await by("second"), await by("third")]).toEqual([202, 202, 401]);
    await clock.advance(86_400_000 - 1);
    expect([await by("first"), await by("second")]).toEqual([202, 202]);
    await clock.advance(1);
    expect([await by("first"), await by("second")]).toEqual([401, 202]);
    expect((await call("GET", `/agents/triggers/${id}`)).body.previous_secret_until).toBeNull();
    const made = await call("POST", `/agents/triggers/${id}/rotate-secret`, { overlap_seconds: 0 });
    expect([await by("second"), await by(made.body.secret)]).toEqual([401, 202]);
  });

  test("rotates what providers issue only with the new secret, and nothing where there is none", async () => {
    const { aTrigger, call } = world();
    const stripe = await aTrigger({ auth: { type: "stripe", secret: "whsec_1" } });
    const missing = await call("POST", `/agents/triggers/${stripe.id}/rotate-secret`, {});
    expect([missing.status, missing.body.error.details.field]).toEqual([400, "secret"]);
    const none = await aTrigger();
    const odd = await call("POST", `/agents/triggers/${none.id}/rotate-secret`, { secret: "x" });
    expect([odd.status, odd.body.error.details.field]).toEqual([400, "trigger_config.auth_config"]);
    const standard = await aTrigger({ auth: { type: "standard_webhooks" } });
    const bad = await call("POST", `/agents/triggers/${standard.id}/rotate-secret`, { secret: "no base64!" });
    expect([bad.status, bad.body.error.details.field]).toEqual([400, "secret"]);
  });
});

describe("Slack", () => {
  const signed = (body: string, now: number, secret = "slack-secret") => {
    const at = String(Math.floor(now / 1_000));
    return {
      "x-slack-request-timestamp": at,
      "x-slack-signature": `v0=${hmac("sha256", secret, "hex", `v0:${at}:${body}`)}`,
    };
  };

  test("gets its challenge back when it is Slack, and nobody else", async () => {
    const { aTrigger, clock, messages } = world();
    const { fire, events } = await aTrigger({ auth: { type: "slack", secret: "slack-secret" } });
    const body = JSON.stringify({
      token: "Jhj5dZrVaK7ZwHHjRyZWjbDl",
      challenge: "3eZbrw1a",
      type: "url_verification",
    });
    const answer = await fire({ body, headers: signed(body, clock.now()) });
    expect([answer.status, answer.body]).toEqual([200, { challenge: "3eZbrw1a" }]);
    expect((await fire({ body, headers: signed(body, clock.now(), "other") })).status).toBe(401);
    await settled();
    expect(messages()).toEqual([]);
    expect(await events()).toMatchObject([{ status: "rejected" }]);
  });

  test("is told apart by its event ids, and its token goes no further", async () => {
    const { aTrigger, clock, storage } = world();
    const { fire, events } = await aTrigger({ auth: { type: "slack", secret: "slack-secret" } });
    const of = (event_id: string, n: number) => JSON.stringify({ token: "Jhj5dZrVaK7Z", event_id, n });
    const send = (body: string) => fire({ body, headers: signed(body, clock.now()) });
    const first = await send(of("Ev1", 1));
    const again = await send(of("Ev1", 2));
    expect([again.text, again.headers.get("idempotent-replay")]).toEqual([first.text, "true"]);
    expect((await send(of("Ev2", 1))).headers.get("idempotent-replay")).toBeNull();
    expect(await events()).toHaveLength(2);
    for (const table of ["messages", "trigger_events", "idempotency"]) {
      expect(JSON.stringify(storage.reader.all(`SELECT * FROM ${table}`))).not.toContain("Jhj5dZrVaK7Z");
    }
  });
});
