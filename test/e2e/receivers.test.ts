import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { BINARY, freePort } from "../../scripts/lib/errand.ts";
import { smtpServer } from "../mail/server.ts";
import { eventually, receiver, world } from "./setup.ts";

const mailbox = await smtpServer();
afterAll(() => mailbox[Symbol.asyncDispose]());
const { errand, workspace } = await world({ env: { ERRAND_SMTP_URL: mailbox.url } });

type Subscription = { id: string; secret: string };
const subscribe = async (url: string, more: object = {}) =>
  (await errand.api<Subscription>("POST", "/api/v1/webhooks", { url, events: ["workflow.*"], ...more })).body;

const workflow = await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, {
  name: "text with every kind of character",
  nodes: [
    {
      node_type_name: "set_variables",
      name: "say",
      input_config: { variables: { text: 'grüße 💡 \u2028 </script> "quoted"' } },
    },
  ],
});
/** Runs it; its events go out. Answers the id of the run, which the events are about. */
const happen = async () =>
  (
    await errand.api<{ id: string }>("POST", `/api/workflows/${workflow.body.id}/executions`, {
      input_data: {},
      response_type: "result",
    })
  ).body.id;

type Test = {
  success: boolean;
  sent: { body: string; headers: Record<string, string> };
  received: { response_code: number };
  verify: { command: string };
};
const testSend = async (id: string) =>
  (await errand.api<Test>("POST", `/api/v1/webhooks/${id}/test`, {})).body;

describe("what the program sends is verified by", () => {
  test("the standardwebhooks and svix libraries, and not under another secret or with another byte", async () => {
    const target = receiver();
    const { id, secret } = await subscribe(target.url, { events: ["workflow.execution.completed"] });
    await happen();
    const { body, headers } = await target.next();
    for (const Library of [StandardWebhook, SvixWebhook]) {
      expect(new Library(secret).verify(body, headers)).toMatchObject({ webhook_id: id });
      expect(() => new Library(secret).verify(`${body} `, headers)).toThrow();
      const other = `whsec_${btoa("x".repeat(32))}`;
      expect(() => new Library(other).verify(body, headers)).toThrow();
    }
    await errand.api("DELETE", `/api/v1/webhooks/${id}`);
  });

  test("both under either secret while a rotation overlaps", async () => {
    const target = receiver();
    const { id, secret } = await subscribe(target.url, { events: ["workflow.execution.completed"] });
    const rotated = await errand.api<{ secret: string }>("POST", `/api/v1/webhooks/${id}/secret/rotate`, {});
    expect(rotated.body.secret).not.toBe(secret);
    await happen();
    const { body, headers } = await target.next();
    for (const each of [secret, rotated.body.secret]) {
      new StandardWebhook(each).verify(body, headers);
      new SvixWebhook(each).verify(body, headers);
    }
    await errand.api("DELETE", `/api/v1/webhooks/${id}`);
  });

  test("ten lines of plain JavaScript that read X-Service-Signature alone", async () => {
    const port = await freePort();
    const { id, secret } = await subscribe(`http://127.0.0.1:${port}/`);
    const script = join(import.meta.dir, "ten-line-receiver.mjs");
    for (const [known, expected] of [
      [secret, 200],
      ["whsec_wrong", 401],
    ] as const) {
      const process_ = Bun.spawn([process.execPath, script, known, String(port)], { stderr: "inherit" });
      const { received } = await eventually(
        () => testSend(id),
        ({ received }) => received.response_code !== null,
      );
      expect(received.response_code).toBe(expected);
      process_.kill();
      await process_.exited;
    }
    await errand.api("DELETE", `/api/v1/webhooks/${id}`);
  });

  test("the openssl command that a test send answers with", async () => {
    const target = receiver();
    const { id, secret } = await subscribe(target.url);
    const { sent, verify } = await testSend(id);
    const shell = Bun.spawn(["sh", "-c", verify.command], {
      env: { PATH: process.env["PATH"] ?? "", BODY: sent.body, SECRET: secret },
    });
    const digest = (await new Response(shell.stdout).text()).trim().split(" ").at(-1);
    expect(sent.headers["X-Service-Signature"]).toBe(`sha256=${digest}`);
    await errand.api("DELETE", `/api/v1/webhooks/${id}`);
  });

  test("errand webhooks listen, which fails on request and sees the retry come", async () => {
    const port = await freePort();
    const { id, secret } = await subscribe(`http://127.0.0.1:${port}/`, { retry_policy: { max_retries: 0 } });
    const flags = ["--port", String(port), "--secret", secret, "--fail", "1", "--count", "2", "--json"];
    const listening = Bun.spawn([BINARY, "webhooks", "listen", ...flags], { stdout: "pipe", stderr: "pipe" });
    const reader = listening.stderr.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toContain(
      `listening at http://127.0.0.1:${port}/`,
    );
    expect((await testSend(id)).received.response_code).toBe(500);
    expect((await testSend(id)).received.response_code).toBe(200);
    const lines = (await new Response(listening.stdout).text()).trim().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { verdict: "verified", status: 500 },
      { verdict: "verified", status: 200 },
    ]);
    expect(await listening.exited).toBe(0);
    await errand.api("DELETE", `/api/v1/webhooks/${id}`);
  });
});

describe("on record is", () => {
  test("why each webhook was told of an event or not, and the mail to the owner", async () => {
    const owner = ["workspaces", "update", "--owner-email", "owner@example.org"];
    expect((await errand.command(...owner)).code).toBe(0); // beside the running server
    const failing = receiver(() => new Response("closed", { status: 503 }));
    const once = { retry_policy: { max_retries: 0 }, events: ["workflow.execution.completed"] };
    await subscribe(failing.url, { name: "failing", ...once });
    await subscribe(failing.url, { name: "picky", ...once, conditions: { status: "failed" } });
    await subscribe(failing.url, { name: "elsewhere", events: ["agent.*"] });
    const run = await happen();
    type Events = { id: string; event: string; outcomes: Record<string, number> }[];
    const { body } = await eventually(
      () => errand.api<Events>("GET", `/api/v1/events?subject_id=${run}&event=workflow.execution.completed`),
      ({ body }) => body[0]?.outcomes["failed"] === 1,
    );
    const event = await errand.api<{ webhooks: object[] }>("GET", `/api/v1/events/${body[0]!.id}`);
    expect(event.body.webhooks).toMatchObject([
      { name: "failing", outcome: "failed", reason: expect.stringContaining("the receiver answered 503") },
      { name: "picky", outcome: "filtered", reason: 'status eq "failed", observed "success"' },
      { name: "elsewhere", outcome: "not_subscribed", reason: expect.stringContaining("lists agent.*") },
    ]);
    await eventually(
      async () => mailbox.received,
      (mails) => mails.length === 1,
    );
    expect(mailbox.received[0]).toMatchObject({ to: ["owner@example.org"] });
    const letter = mailbox.received[0]!.raw.replace(/=\r\n/g, "");
    expect(letter).toContain("Errand gave up a delivery to failing");
    // The commands in it do what it says.
    const [, again] = /errand (webhooks redeliver .*)\r\n/.exec(letter)!;
    const [, id, delivery] = again!.split(" ").slice(1) as [string, string, string];
    const record = await errand.command("webhooks", "delivery", id, delivery);
    expect(record.stdout).toMatch(/gave up after 1 attempt: .*ATTEMPT.*1 .* 503 .* closed.*\{"event":/s);
    const [, all] = /errand (webhooks replay .*)\r\n/.exec(letter)!;
    const replayed = await errand.command(...all!.split(" "), "--json");
    expect(JSON.parse(replayed.stdout)).toMatchObject({ webhook_id: id, replayed: 1 });
    const shown = await errand.command("events", "show", body[0]!.id);
    expect(shown.stdout).toContain('status eq "failed", observed "success"');
  });
});
