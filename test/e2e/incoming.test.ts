import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { receiver, world } from "./setup.ts";

const { errand, workspace } = await world({ args: ["--log-level", "debug", "--access-log", "true"] });
const { port } = new URL(errand.url);

async function hookOf(type: "agents" | "workflows", record: object) {
  const { body } = await errand.api<{ id: string }>("POST", `/api/${type}?${workspace}`, record);
  const made = await errand.api<{ token: string; id: string }>(
    "POST",
    `/api/${type}/${body.id}/webhook-tokens`,
    {},
  );
  return {
    id: body.id,
    path: `/webhooks/${type}/${body.id}`,
    token: made.body.token,
    token_id: made.body.id,
  };
}

const json = (body: unknown, headers: Record<string, string> = {}) => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

const GREET = {
  name: "Greet",
  input_schema: { required: ["name"], properties: { name: { title: "Name", type: "string" } } },
  nodes: [
    {
      node_type_name: "set_variables",
      name: "greet",
      input_config: { variables: { text: "Hello {{ name }}" } },
    },
  ],
};

/** Sends bytes as they are and reads until the server closes or `isWhole`. */
function raw(text: string, isWhole: (answer: string) => boolean = (answer) => answer.includes("\r\n\r\n")) {
  return new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), "127.0.0.1");
    let answer = "";
    socket.on("data", (data) => {
      answer += data.toString("latin1");
      if (isWhole(answer)) socket.destroy();
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
    socket.write(text);
  });
}
const statusOf = (answer: string) => Number(answer.split(" ")[1]);

type Envelope = { event: string; data: Record<string, unknown> };

describe("the webhook of an agent", () => {
  test("turns messages into one conversation, and its replies are read, waited for and delivered", async () => {
    const target = receiver();
    const kinds = ["agent.conversation.started", "agent.message.received", "agent.message.sent"];
    await errand.api("POST", "/api/v1/webhooks", { name: "all", url: target.url, events: kinds });
    const agent = await hookOf("agents", { name: "Guide" });
    const say = (message: string, query = "") =>
      fetch(`${errand.url}${agent.path}?token=${agent.token}${query}`, {
        ...json({
          message,
          user_id: "user-1",
          metadata: { plan: "pro" },
          context: { conversation_id: "thread-1", page: "/cart" },
        }),
      });

    const first = (await (await say("Hello there", "&wait=10")).json()) as Record<string, string>;
    expect(first).toMatchObject({ success: true, status: "success", agent_id: agent.id, error: null });
    expect(first["reply"]).toContain('You said: "Hello there');
    const second = await say("And again");
    expect(second.status).toBe(202);
    const { execution_id } = (await second.json()) as { execution_id: string };
    const status = await fetch(
      `${errand.url}/webhooks/executions/${execution_id}?token=${agent.token}&wait=10`,
    );
    const stood = (await status.json()) as Record<string, string>;
    expect(stood["conversation_id"]).toBe(first["conversation_id"]!);
    expect(stood["reply"]).toContain("This is message 2 of our conversation");

    const { body } = await errand.api<{ user_id: string; metadata: object; messages: { content: string }[] }>(
      "GET",
      `/api/agents/${agent.id}/conversations/thread-1`,
    );
    expect(body).toMatchObject({ user_id: "user-1", metadata: { plan: "pro" } });
    expect(body.messages.map(({ content }) => content)).toEqual([
      "Hello there",
      first["reply"]!,
      "And again",
      stood["reply"]!,
    ]);
    const told: Envelope[] = [];
    for (let n = 0; n < 5; n++) told.push(JSON.parse((await target.next()).body));
    expect(told.map(({ event }) => event).toSorted()).toEqual([
      kinds[0]!,
      kinds[1]!,
      kinds[1]!,
      kinds[2]!,
      kinds[2]!,
    ]);
    const sent = told.filter(({ event }) => event === kinds[2]).map(({ data }) => data["content"]);
    expect(sent.toSorted()).toEqual([first["reply"]!, stood["reply"]!].toSorted());
  });
});

describe("a workflow that answers for itself", () => {
  const respond = {
    node_type_name: "respond_to_webhook",
    name: "answer",
    input_config: {
      status: 201,
      headers: { "x-made-by": "{{ name }}", "content-type": "text/html" },
      body: "<h1>{{ name }}</h1>",
    },
  };

  test("is heard by whoever waits, with its status, headers and body", async () => {
    const { path, token } = await hookOf("workflows", { ...GREET, nodes: [...GREET.nodes, respond] });
    const answer = await fetch(
      `${errand.url}${path}?token=${token}&wait=10`,
      json({ input_data: { name: "Ada" } }),
    );
    expect([answer.status, answer.headers.get("x-made-by"), await answer.text()]).toEqual([
      201,
      "Ada",
      "<h1>Ada</h1>",
    ]);
    expect(answer.headers.get("content-security-policy")).toBe("sandbox");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    const other = await fetch(`${errand.url}${path}?token=${token}`, json({ input_data: { name: "Ada" } }));
    expect(other.status).toBe(202);
  });
});

describe("a token", () => {
  test("is nowhere but in the address: not in logs, events, deliveries, errors, records or the database", async () => {
    const target = receiver();
    await errand.api("POST", "/api/v1/webhooks", { name: "all", url: target.url, events: ["workflow.*"] });
    const hook = await hookOf("workflows", GREET);
    const { token, path } = hook;
    const seen: string[] = [];
    const ask = async (at: string, init: RequestInit = {}) => {
      const response = await fetch(errand.url + at, { redirect: "manual", ...init });
      seen.push(
        await response.text(),
        JSON.stringify([...response.headers].filter(([name]) => name !== "location")),
      );
      return response;
    };
    const good = json({ input_data: { name: "x" }, metadata: { a: 1 } });
    const started = (await (await fetch(`${errand.url}${path}?token=${token}`, good)).json()) as {
      execution_id: string;
    };
    await ask(`${path}?token=${token}`, good);
    await ask(`${path}?token=${token}&wait=5`, good);
    await ask(path, json({ input_data: { name: "x" } }, { authorization: `Bearer ${token}` }));
    await ask(path, json({ input_data: { name: "x" } }, { authorization: `Basic ${btoa(`u:${token}`)}` }));
    await ask(`${path}?token=${token}`, json({ input_data: {} }));
    await ask(`${path}?token=${token}`, {
      method: "POST",
      body: "{",
      headers: { "content-type": "application/json" },
    });
    await ask(`${path}?token=${token}x`, good);
    await ask(`${path}?token=${token}&wait=x`, good);
    await ask(`${path}/${token}`, good);
    await ask(`/webhooks/${token}/x?token=${token}`);
    await ask(`/webhooks/executions/${started.execution_id}?token=${token}&wait=5`);
    await ask(`/webhooks/executions/${token}?token=x`);
    await ask(`${path}/form?token=${token}x`);
    const form = { method: "POST", body: new URLSearchParams({ name: "x" }) };
    expect((await ask(`${path}/form?token=${token}`, form)).status).toBe(303);

    seen.push(JSON.stringify((await errand.api("GET", `/api/executions/${started.execution_id}`)).body));
    seen.push(JSON.stringify((await errand.api("GET", `/api/workflows/${hook.id}/executions`)).body));
    seen.push(JSON.stringify((await errand.api("GET", `/api/workflows/${hook.id}/webhook-tokens`)).body));
    for (let n = 0; n < 3; n++) seen.push(JSON.stringify(await target.next()));
    seen.push((await errand.command("webhooks", "tokens", "list", `workflows/${hook.id}`, "--json")).stdout);
    for (const name of readdirSync(errand.data).filter((name) => name.startsWith("errand.db"))) {
      seen.push(readFileSync(join(errand.data, name)).toString("latin1"));
    }
    await Bun.sleep(150); // the log is written out every 100 ms
    expect(errand.output()).toContain(path);
    seen.push(errand.output());
    const secret = token.slice("eht_".length);
    for (const text of seen) {
      const at = text.indexOf(secret);
      expect(at === -1 ? "" : text.slice(Math.max(0, at - 200), at)).toBe("");
    }
  });

  test("is listed with its end and its last use, and opens nothing from the moment it is revoked", async () => {
    const hook = await hookOf("workflows", GREET);
    const at = `/api/workflows/${hook.id}/webhook-tokens`;
    const second = await errand.api<{ id: string; token: string; expires_at: string }>("POST", at, {
      name: "Second",
      expires_at: "2999-01-01T00:00:00Z",
    });
    const fire = async (token: string) =>
      (await fetch(`${errand.url}${hook.path}?token=${token}`, json({ input_data: { name: "x" } }))).status;
    expect([await fire(hook.token), await fire(second.body.token)]).toEqual([202, 202]);
    expect((await errand.api("DELETE", `${at}/${hook.token_id}`)).status).toBe(204);
    expect([await fire(hook.token), await fire(second.body.token)]).toEqual([401, 202]);
    const { body } = await errand.api<object[]>("GET", at);
    expect(body).toMatchObject([
      { status: "revoked", last_used_at: expect.any(String), revoked_at: expect.any(String) },
      {
        name: "Second",
        status: "active",
        expires_at: "2999-01-01T00:00:00.000Z",
        last_used_at: expect.any(String),
      },
    ]);
  });
});

test("the webhook of a deleted agent or workflow answers as one that never was, with every token of it", async () => {
  for (const [type, record] of [
    ["agents", { name: "Guide" }],
    ["workflows", GREET],
  ] as const) {
    const { id, path, token } = await hookOf(type, record);
    const fire = async (at: string) => {
      const answer = await fetch(
        `${errand.url}${at}?token=${token}`,
        json({ message: "x", input_data: { name: "x" } }),
      );
      const { error } = (await answer.json()) as { error?: { code: string; message: string } };
      return [answer.status, error?.code, error?.message];
    };
    expect((await fire(path))[0]).toBe(202);
    expect((await errand.api("DELETE", `/api/${type}/${id}`)).status).toBe(204);
    expect(await fire(path)).toEqual(await fire(`/webhooks/${type}/${crypto.randomUUID()}`));
    expect((await fire(path))[0]).toBe(401);
  }
});

describe("a request that no sender would make", () => {
  const requestTo = (path: string, head: string, body = "") =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n${body}`;

  test("with a hundred headers is answered, with a megabyte of them refused", async () => {
    const { path, token } = await hookOf("workflows", GREET);
    const body = JSON.stringify({ input_data: { name: "x" } });
    const many = Array.from({ length: 100 }, (_, n) => `X-Header-${n}: ${"v".repeat(100)}\r\n`).join("");
    const framing = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    expect(statusOf(await raw(requestTo(`${path}?token=${token}`, many + framing, body)))).toBe(202);
    const huge = Array.from({ length: 1_000 }, (_, n) => `X-${n}: ${"v".repeat(1_000)}\r\n`).join("");
    const refused = await raw(requestTo(`${path}?token=${token}`, huge + framing, body)).catch(() => "");
    expect([431, Number.NaN]).toContain(statusOf(refused));
    expect((await fetch(`${errand.url}/health`)).status).toBe(200);
  });

  test("with its body in chunks of a byte is the same request", async () => {
    const { path, token } = await hookOf("workflows", GREET);
    const body = JSON.stringify({ input_data: { name: "drip" } });
    const head = requestTo(
      `${path}?token=${token}&wait=5`,
      "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
    );
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), "127.0.0.1");
      let text = "";
      socket.on("data", (data) => {
        text += data.toString();
        if (text.includes("Hello drip") || !text.startsWith("HTTP/1.1 200")) socket.destroy();
      });
      socket.on("close", () => resolve(text));
      socket.on("error", reject);
      socket.setNoDelay(true);
      socket.write(head);
      const pieces = [...body].map((letter) => `1\r\n${letter}\r\n`);
      const drip = () => {
        const piece = pieces.shift();
        socket.write(piece ?? "0\r\n\r\n");
        if (piece !== undefined) setImmediate(drip);
      };
      drip();
    });
    expect(answer).toContain("Hello drip");
  });

  test("that ends in the middle of its body starts nothing", async () => {
    const { id, path, token } = await hookOf("workflows", GREET);
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), "127.0.0.1", () => {
        socket.write(
          requestTo(
            `${path}?token=${token}`,
            "Content-Type: application/json\r\nContent-Length: 100\r\n",
            '{"input',
          ),
          () => socket.destroy(),
        );
      });
      socket.on("close", () => resolve());
    });
    expect((await errand.api<object[]>("GET", `/api/workflows/${id}/executions`)).body).toEqual([]);
  });

  test("by another method is told which it may use, whoever asks", async () => {
    const { path, token } = await hookOf("workflows", GREET);
    const at = `${errand.url}${path}?token=${token}`;
    for (const method of ["GET", "PUT", "PATCH", "DELETE", "HEAD"]) {
      const answer = await fetch(at, { method });
      expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "POST"]);
    }
    const options = await fetch(at, { method: "OPTIONS" });
    expect([options.status, options.headers.get("allow"), await options.text()]).toEqual([204, "POST", ""]);
    for (const method of ["TRACE", "CONNECT", "BREW"]) {
      const answer = await raw(`${method} ${path}?token=${token} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect([method, [400, 405, 404, Number.NaN].includes(statusOf(answer))]).toEqual([method, true]);
      expect(answer).not.toContain(token);
    }
  });
});
