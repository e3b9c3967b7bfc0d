import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { createKey, discard, scratch, startErrand } from "../../scripts/lib/errand.ts";
import { eventually, receiver, world } from "./setup.ts";

const { errand, key, workspace } = await world({ args: ["--log-level", "debug", "--access-log", "true"] });
const { port } = new URL(errand.url);

type Made = { id: string; url: string; secret: string; trigger_config: { path: string } };
type Called = { id: string; status: string; request: { body: unknown }; conversation_id: string };

const anAgent = async () =>
  (await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, { name: "Guide" })).body.id;

async function aTrigger(auth_config: object, more: object = {}) {
  const agent = await anAgent();
  const made = await errand.api<Made>("POST", `/api/agents/${agent}/triggers`, {
    trigger_config: { auth_config },
    ...more,
  });
  expect(made.status).toBe(201);
  const { id, url, secret } = made.body;
  const events = async () =>
    (await errand.api<Called[]>("GET", `/api/agents/${agent}/triggers/${id}/events`)).body;
  return { agent, id, url, secret, events };
}

const PUSH = JSON.stringify({
  ref: "refs/heads/main",
  repository: { name: "hello", full_name: "octo/hello" },
  pusher: { name: "octocat" },
  commits: [{ message: "Fix 🐛 in {{ braces }}" }],
});
const fromGitHub = (secret: string, event: string, delivery: string, body = PUSH) => ({
  method: "POST",
  headers: {
    "content-type": "application/json",
    "user-agent": "GitHub-Hookshot/abc",
    "x-github-event": event,
    "x-github-delivery": delivery,
    "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
  },
  body,
});

describe("a push at GitHub", () => {
  test("becomes a message of a conversation that subscribers are told of, once however often it is sent", async () => {
    const target = receiver();
    const kinds = ["agent.message.received", "agent.message.sent"];
    const hook = await errand.api<{ id: string }>("POST", "/api/v1/webhooks", {
      url: target.url,
      events: kinds,
    });
    const agent = await anAgent();
    const file = join(errand.data, "github-secret");
    writeFileSync(file, "It's a Secret to Everybody\n");
    const made = await errand.command(
      ...["triggers", "create", agent, "--auth", "github", "--secret-from", file, "--json"],
      ...["--conversation-id", "{{ event.body.repository.name }}"],
      "--message",
      '{% if event.headers.x-github-event == "push" %}{{ event.body.pusher.name }} pushed {{ event.body.commits[0].message }}{% endif %}',
    );
    const { id, url } = JSON.parse(made.stdout) as Made;
    expect(url).toStartWith(`${errand.url}/api/agents/webhook/`);

    const request = fromGitHub("It's a Secret to Everybody", "push", "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    const answer = await fetch(url, request);
    const text = await answer.text();
    expect([answer.status, JSON.parse(text)]).toMatchObject([202, { success: true, status: "queued" }]);
    const again = await fetch(url, request);
    expect([await again.text(), again.headers.get("idempotent-replay")]).toEqual([text, "true"]);
    const zen = '{"zen":"Keep it logically awesome."}';
    const ping = await fetch(url, fromGitHub("It's a Secret to Everybody", "ping", crypto.randomUUID(), zen));
    expect([ping.status, await ping.json()]).toMatchObject([202, { success: true, status: "ignored" }]);
    expect((await fetch(url, fromGitHub("another secret", "push", crypto.randomUUID()))).status).toBe(401);

    const told = [];
    for (let n = 0; n < 2; n++) told.push(JSON.parse((await target.next()).body));
    expect(told.map(({ event }) => event).toSorted()).toEqual(kinds);
    const received = told.find(({ event }) => event === kinds[0]);
    expect(received.data).toMatchObject({
      agent_id: agent,
      content: "octocat pushed Fix 🐛 in {{ braces }}",
    });
    const conversation = await errand.api<{ messages: { role: string; content: string }[] }>(
      "GET",
      `/api/agents/${agent}/conversations/hello`,
    );
    expect(conversation.body.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);

    const called = await errand.command("triggers", "events", id, "--json");
    expect(JSON.parse(called.stdout).map(({ status }: Called) => status)).toEqual([
      "rejected",
      "completed",
      "completed",
    ]);
    const [, , push] = JSON.parse(called.stdout) as Called[];
    const redelivered = await errand.command("triggers", "redeliver", id, push!.id, "--json");
    const { id: event_id } = JSON.parse(redelivered.stdout) as Called;
    await eventually(
      async () => JSON.parse((await errand.command("triggers", "events", id, "--json")).stdout) as Called[],
      (events) => events.find((one) => one.id === event_id)?.status === "completed",
    );
    await errand.api("DELETE", `/api/v1/webhooks/${hook.body.id}`);
  });
});

describe("a trigger", () => {
  test("keeps what it has accepted over a kill -9, and knows its repetition after it", async () => {
    const data = scratch();
    const own = await createKey(data);
    const start = () => startErrand({ data, key: own, args: ["--log-level", "error"] });
    let life = await start();
    try {
      const agent = await life.api<{ id: string }>("POST", `/api/agents?workspace_id=${own.workspace_id}`, {
        name: "Guide",
      });
      const { body: made } = await life.api<Made>("POST", `/api/agents/${agent.body.id}/triggers`, {
        trigger_config: { auth_config: { type: "standard_webhooks" } },
      });
      const at = new Date();
      const call = (id: string) =>
        fetch(`${life.url}/api/agents/webhook/${made.trigger_config.path}/trigger`, {
          method: "PUT",
          headers: {
            "content-type": "text/plain",
            "webhook-id": id,
            "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
            "webhook-signature": new Webhook(made.secret).sign(id, at, "Hello"),
          },
          body: "Hello",
        });
      const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => call(`msg_${n}`)));
      const texts = await Promise.all(answers.map((answer) => answer.text()));
      expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(202));
      await life.kill();
      life = await start();
      const again = await call("msg_7");
      expect([await again.text(), again.headers.get("idempotent-replay")]).toEqual([texts[7]!, "true"]);
      const events = async () =>
        (await life.api<Called[]>("GET", `/api/agents/${agent.body.id}/triggers/${made.id}/events`)).body;
      const ended = await eventually(events, (all) => all.every(({ status }) => status === "completed"));
      expect(ended).toHaveLength(20);
    } finally {
      await life.kill();
      discard(data);
    }
  });

  test("of a deleted agent is not there, nor is its agent's webhook; one that is not active says so", async () => {
    const { agent, id, url } = await aTrigger({ type: "bearer", token: "trigger-token" });
    const hook = await errand.api<{ url: string }>("POST", `/api/agents/${agent}/webhook-tokens`, {});
    const call = async (at: string, authorization?: string) => {
      const response = await fetch(at, {
        method: "POST",
        headers: { "content-type": "application/json", ...(authorization ? { authorization } : {}) },
        body: '{"message":"x"}',
      });
      const { error } = (await response.json()) as { error?: { message: string } };
      return error ? [response.status, error.message] : [response.status];
    };
    const known = "Bearer trigger-token";
    expect([await call(url, known), await call(hook.body.url)]).toEqual([[202], [202]]);
    await errand.api("PUT", `/api/agents/triggers/${id}`, { is_active: false });
    const strange = await call(url);
    expect([await call(url, known), strange[0]]).toEqual([[409, "This trigger is not active."], 401]);
    await errand.api("DELETE", `/api/agents/${agent}`);
    expect(await call(url, known)).toEqual(strange);
    expect((await call(hook.body.url))[0]).toBe(401);
  });

  test("keeps its secret, and the credentials of its callers, out of all that is written", async () => {
    const secret = `trigger-secret-${crypto.randomUUID()}`;
    const { url, id, agent } = await aTrigger({ type: "bearer", token: secret });
    const seen: string[] = [];
    const call = async (at: string, init: RequestInit) => {
      const response = await fetch(at, { method: "POST", ...init });
      seen.push(await response.text(), JSON.stringify([...response.headers]));
      return response.status;
    };
    const headers = { authorization: `Bearer ${secret}`, "content-type": "text/plain" };
    expect(await call(url, { headers, body: "Hello" })).toBe(202);
    expect(await call(`${url}?token=${secret}&x=${secret}`, { headers, body: `It is ${secret}` })).toBe(202);
    expect(await call(url, { headers: { ...headers, authorization: secret }, body: secret })).toBe(401);
    expect(await call(url, { headers: { ...headers, "content-type": "application/json" }, body: "{" })).toBe(
      400,
    );
    seen.push(JSON.stringify((await errand.api("GET", `/api/agents/${agent}/triggers`)).body));
    seen.push(JSON.stringify((await errand.api("GET", `/api/agents/${agent}/triggers/${id}/events`)).body));
    seen.push((await errand.command("triggers", "show", id)).stdout);
    await Bun.sleep(150); // the log is written out every 100 ms
    for (const name of readdirSync(errand.data).filter((name) => name.startsWith("errand.db"))) {
      seen.push(readFileSync(join(errand.data, name)).toString("latin1"));
    }
    const log = errand.output();
    expect(log).toContain("/api/agents/webhook/:path/trigger");
    expect(log).not.toContain(new URL(url).pathname.split("/").at(-2)!);
    seen.push(log);
    expect(seen.filter((text) => text.includes(secret))).toEqual([]);
    expect(key.key).toBeString();
  });
});

describe("a call that no sender would make", () => {
  const raw = (text: string, drip = false) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), "127.0.0.1");
      let answer = "";
      socket.on("data", (data) => {
        answer += data.toString("latin1");
        if (answer.includes("\r\n\r\n")) socket.destroy();
      });
      socket.on("close", () => resolve(answer));
      socket.on("error", reject);
      if (!drip) return void socket.write(text);
      socket.setNoDelay(true);
      const letters = [...text];
      const next = () => {
        const letter = letters.shift();
        if (letter === undefined) return;
        socket.write(letter);
        setImmediate(next);
      };
      next();
    });
  const statusOf = (answer: string) => Number(answer.split(" ")[1]);

  test("with a hundred headers or drop by drop is the same call", async () => {
    const { url, events } = await aTrigger({ type: "hmac", header: "X-Sig", secret: "drip" });
    const { pathname } = new URL(url);
    const body = '{"drip":true}';
    const signature = createHmac("sha256", "drip").update(body).digest("hex");
    const head = `POST ${pathname} HTTP/1.1\r\nHost: localhost\r\nX-Sig: ${signature}\r\nContent-Type: application/json\r\n`;
    const many = Array.from({ length: 100 }, (_, n) => `X-Header-${n}: ${"v".repeat(50)}\r\n`).join("");
    const plain = `Content-Length: ${body.length}\r\n\r\n${body}`;
    expect(statusOf(await raw(head + many + plain))).toBe(202);
    const chunked = `Transfer-Encoding: chunked\r\n\r\n${[...body].map((letter) => `1\r\n${letter}\r\n`).join("")}0\r\n\r\n`;
    expect(statusOf(await raw(head + chunked, true))).toBe(202);
    expect(await events()).toHaveLength(2);
  });

  test("that ends in the middle of its body starts nothing", async () => {
    const { url, events } = await aTrigger({ type: "none" });
    const { pathname } = new URL(url);
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), "127.0.0.1", () => {
        const head = `POST ${pathname} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n`;
        socket.write(`${head}Content-Length: 100\r\n\r\nhalf`, () => socket.destroy());
      });
      socket.on("close", () => resolve());
    });
    // On record at most as a call that was refused: whether it is by now is the server's pace.
    const begun = (await events()).filter(({ status }) => status !== "rejected");
    expect(begun).toEqual([]);
  });

  test("by HEAD, OPTIONS, TRACE or CONNECT starts nothing", async () => {
    const { url, events } = await aTrigger({ type: "none" });
    const { pathname } = new URL(url);
    for (const [method, statuses] of [
      ["HEAD", [204]],
      ["OPTIONS", [204]],
      ["TRACE", [400, 405, Number.NaN]],
      ["CONNECT", [400, 404, 405, Number.NaN]],
    ] as const) {
      const status = statusOf(await raw(`${method} ${pathname} HTTP/1.1\r\nHost: localhost\r\n\r\n`));
      expect([method, (statuses as readonly number[]).includes(status)]).toEqual([method, true]);
    }
    expect(await events()).toEqual([]);
    expect((await fetch(`${url}?message=Hello`)).status).toBe(202);
    expect(await events()).toHaveLength(1);
  });
});
