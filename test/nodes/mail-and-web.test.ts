import { describe, expect, test } from "bun:test";
import { createEgress } from "../../src/egress/egress.ts";
import { type Letter, MailError } from "../../src/mail/mail.ts";
import { classifyText } from "../../src/nodes/classify-text.ts";
import { runAgent } from "../../src/nodes/run-agent.ts";
import { sendEmail } from "../../src/nodes/send-email.ts";
import { webRetrieval } from "../../src/nodes/web-retrieval.ts";
import { modelOf, run, runWith, server } from "./setup.ts";

describe("web_retrieval", () => {
  const html = (body: string, type = "text/html; charset=utf-8") =>
    new Response(body, { headers: { "content-type": type } });

  test("reads a page after redirects, its links in full", async () => {
    using site = server((request) =>
      request.url.endsWith("/new/")
        ? html("<title>T</title><p>Hello <a href='x'>link</a>")
        : new Response(null, { status: 301, headers: { location: "/new/" } }),
    );
    const { output, external_calls } = await run(webRetrieval, { url: `${site.url}/old` });
    expect(output).toEqual({
      url: `${site.url}/new/`,
      status: 200,
      media_type: "text/html",
      truncated: false,
      title: "T",
      description: null,
      content: `Hello [link](${site.url}/new/x)`,
      links: [{ text: "link", url: `${site.url}/new/x` }],
    });
    expect(external_calls).toBe(1);
    expect(site.got[1]?.headers["x-service-hop"]).toBe("1");
  });

  test("gives on other texts as they are, and refuses what is none", async () => {
    using site = server((request) =>
      request.url.endsWith(".json") ? html('{"a":1}', "application/json") : html("\u0000", "image/png"),
    );
    expect((await run(webRetrieval, { url: `${site.url}/a.json` })).output).toMatchObject({
      content: '{"a":1}',
      title: null,
    });
    await expect(run(webRetrieval, { url: site.url })).rejects.toMatchObject({
      code: "NOT_A_PAGE",
      retryable: false,
    });
  });

  test("reads the character set that the server names", async () => {
    using site = server(
      () =>
        new Response(Buffer.from("<p>caf\xe9", "latin1"), {
          headers: { "content-type": "text/html; charset=ISO-8859-1" },
        }),
    );
    expect((await run(webRetrieval, { url: site.url })).output).toMatchObject({ content: "café" });
    using odd = server(() => html("<p>ok", "text/html; charset=no-such"));
    expect((await run(webRetrieval, { url: odd.url })).output).toMatchObject({ content: "ok" });
  });

  test("cuts what is longer than it may be, and says so", async () => {
    using site = server(() => html(`<p>${"word ".repeat(400_000)}`));
    const { output } = await run(webRetrieval, { url: site.url, max_characters: 100 });
    expect(output).toMatchObject({ truncated: true });
    expect((output as { content: string }).content).toHaveLength(100);
  });

  test("goes to no private address, neither at once nor by a redirect", async () => {
    using site = server(
      () => new Response(null, { status: 302, headers: { location: "http://169.254.169.254/latest" } }),
    );
    const guarded = runWith({ egress: createEgress() });
    await expect(run(webRetrieval, { url: site.url }, guarded)).rejects.toMatchObject({ code: "BLOCKED" });
    await expect(run(webRetrieval, { url: site.url })).rejects.toMatchObject({
      code: "BLOCKED",
      retryable: false,
    });
  });

  test("fails on a bad status and when its time is over", async () => {
    using site = server((request) =>
      request.url.endsWith("/slow") ? new Promise<Response>(() => {}) : new Response("", { status: 503 }),
    );
    await expect(run(webRetrieval, { url: site.url })).rejects.toMatchObject({
      code: "HTTP_STATUS",
      retryable: true,
    });
    const slow = run(webRetrieval, { url: `${site.url}/slow`, timeout_seconds: 0.02 });
    await expect(slow).rejects.toMatchObject({ code: "TIMEOUT", retryable: true });
  });
});

describe("classify_text", () => {
  const categories = ["Bill", { name: "Complaint", description: "Somebody is unhappy." }];
  async function classify(answer: string, more: object = {}) {
    const { models, asked } = modelOf({ text: answer });
    const { output } = await run(
      classifyText,
      { text: "I am not happy", categories, ...more },
      runWith({ models }),
    );
    return { output: output as { category: string | null; categories: string[] }, asked };
  }

  test.each([
    '{"categories":["complaint"]}',
    '```json\n{"category": "Complaint"}\n```',
    '["Complaint", "Bill"]',
    " **Complaint**. ",
    '"complaint"',
  ])("understands %j", async (answer) => {
    expect((await classify(answer)).output).toMatchObject({
      category: "Complaint",
      categories: ["Complaint"],
    });
  });

  test("names the categories apart from the text", async () => {
    const { asked } = await classify('{"categories":["Bill"]}', { instructions: "Be strict." });
    const [system, user] = asked[0]!.messages;
    expect(system?.content).toContain("- Complaint: Somebody is unhappy.");
    expect(system?.content).toContain("Be strict.");
    expect(system?.content).not.toContain("I am not happy");
    expect(user?.content).toContain("I am not happy");
    expect(asked[0]).toMatchObject({ model: "test/usual", temperature: 0 });
  });

  test("gives several, or none, only where it may", async () => {
    const both = '{"categories":["Complaint","Bill","Complaint","Other"]}';
    expect((await classify(both, { multiple: true })).output.categories).toEqual(["Complaint", "Bill"]);
    for (const none of ['{"categories":[]}', "none"]) {
      expect((await classify(none, { allow_none: true })).output).toMatchObject({
        category: null,
        categories: [],
      });
      await expect(classify(none)).rejects.toMatchObject({ code: "NO_CATEGORY", retryable: true });
    }
    await expect(classify('{"categories":["Other"]}', { allow_none: true })).rejects.toMatchObject({
      code: "NO_CATEGORY",
    });
  });
});

describe("send_email", () => {
  function postbox(...answers: (Error | undefined)[]) {
    const sent: { letter: Letter; server?: object }[] = [];
    const mail = {
      async send(letter: Letter, options: { server?: object } = {}) {
        const answer = answers.shift();
        if (answer) throw answer;
        sent.push({ letter, server: options.server });
        return { message_id: "<1@x>", accepted: letter.to, rejected: [] };
      },
    };
    return { sent, mail };
  }

  test("hands a letter in, its lists written either way", async () => {
    const { sent, mail } = postbox();
    const { output, external_calls } = await run(
      sendEmail,
      {
        to: 'ada@b.example, "Lovelace, Ada" <a@b.example>',
        cc: ["c@d.example"],
        subject: "Hi",
        html: "<p>x",
        attachments: [
          { filename: "a.txt", content: "é" },
          { filename: "b.bin", content_base64: "AAE=", media_type: "application/x" },
        ],
      },
      runWith({ mail: mail as never }),
    );
    expect(output).toMatchObject({ message_id: "<1@x>", rejected: [] });
    expect(external_calls).toBe(1);
    expect(sent[0]?.letter).toMatchObject({
      to: ["ada@b.example", '"Lovelace, Ada" <a@b.example>'],
      cc: ["c@d.example"],
      bcc: [],
      idempotencyKey: "execution/0",
    });
    expect(sent[0]?.letter.attachments?.map((one) => Buffer.from(one.content).toString("hex"))).toEqual([
      "c3a9",
      "0001",
    ]);
  });

  test("fails as the mail failed", async () => {
    const { mail } = postbox(new MailError("MAIL_UNREACHABLE", "no", true));
    const sending = run(
      sendEmail,
      { to: "a@b.example", subject: "Hi", text: "x" },
      runWith({ mail: mail as never }),
    );
    await expect(sending).rejects.toMatchObject({ code: "MAIL_UNREACHABLE", retryable: true });
    const unset = run(sendEmail, { to: "a@b.example", subject: "Hi", text: "x" });
    await expect(unset).rejects.toMatchObject({ code: "NOT_CONFIGURED", retryable: false });
  });

  test("uses a connection's server under the guard, and only one of mail", async () => {
    const { sent, mail } = postbox();
    const smtp = {
      type: "smtp",
      id: "1",
      name: "post",
      host: "mail.example",
      username: "u",
      password: "p",
    } as const;
    const bearer = { type: "bearer", id: "2", name: "api", token: "secret-token" } as const;
    const connections = { open: async (_: string, ref: string) => (ref === "post" ? smtp : bearer) };
    const letter = { to: "a@b.example", subject: "Hi", text: "x" };
    await run(sendEmail, { ...letter, connection: "post" }, runWith({ mail: mail as never, connections }));
    expect(sent[0]?.server).toMatchObject({
      host: "mail.example",
      port: 587,
      security: "starttls",
      trusted: false,
    });
    const wrong = run(
      sendEmail,
      { ...letter, connection: "api" },
      runWith({ mail: mail as never, connections }),
    );
    await expect(wrong).rejects.toMatchObject({ code: "CONNECTION_TYPE" });
  });

  test("wants a text or HTML when it is saved", () => {
    expect(sendEmail.check?.({ to: "a", subject: "b" })).toHaveLength(1);
    expect(sendEmail.check?.({ to: "a", subject: "b", text: "c" })).toEqual([]);
    expect(sendEmail.check?.({ text: "c", connection: "{{ name }}" })).toMatchObject([
      { field: "connection" },
    ]);
  });
});

describe("run_agent", () => {
  test("gives on the agent's reply, one hop further", async () => {
    let asked: object | undefined;
    const askAgent = async (question: object) => {
      asked = question;
      return { outcome: "answered" as const, reply: "Hello", conversation_id: "c", turn_id: "t" };
    };
    const { output } = await run(runAgent, { agent_id: "a", message: "Hi" }, runWith({ askAgent }));
    expect(output).toEqual({ reply: "Hello", conversation_id: "c", turn_id: "t" });
    expect(asked).toMatchObject({
      agent_id: "a",
      message: "Hi",
      hop: 1,
      idempotencyKey: "execution/0",
      scope: { project_id: "p" },
    });
  });

  test("fails as the agent failed", async () => {
    const askAgent = async () => ({
      outcome: "failed" as const,
      code: "AGENT_MISSING",
      message: "There is no agent a.",
    });
    const asking = run(runAgent, { agent_id: "a", message: "Hi" }, runWith({ askAgent }));
    await expect(asking).rejects.toMatchObject({ code: "AGENT_MISSING", message: "There is no agent a." });
  });
});
