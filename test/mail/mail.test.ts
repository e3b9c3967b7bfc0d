import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createEgress } from "../../src/egress/egress.ts";
import { addressIn } from "../../src/lib/mail-address.ts";
import { createMail, type Letter, type MailError, type SmtpServer } from "../../src/mail/mail.ts";
import { serverOfUrl } from "../../src/mail/server.ts";
import { smtpServer } from "./server.ts";

const letter: Letter = { to: ["ada@example.org"], subject: "Hello", text: "A line" };

function mailOf(
  smtp_url?: string,
  given: { allow?: string[]; owner?: string; mail_from?: string; timeoutMs?: number } = {},
) {
  return createMail({
    smtp_url,
    mail_from: given.mail_from,
    domain: "errand.example",
    egress: createEgress({ allow: given.allow ?? [] }),
    ownerOf: async () => given.owner,
    timeoutMs: given.timeoutMs,
  });
}

const failure = (sending: Promise<unknown>): Promise<MailError> =>
  sending.then(
    () => {
      throw new Error("it was sent");
    },
    (error) => error,
  );

describe("mail", () => {
  test("is handed to the operator's server, which may stand on a private address", async () => {
    await using server = await smtpServer();
    const mail = mailOf(`smtp://ada:right@127.0.0.1:${server.port}`);
    const sent = await mail.send({
      ...letter,
      cc: ["Bob <bob@example.org>"],
      bcc: ["eve@example.org"],
      reply_to: "desk@example.org",
      html: "<p>A line</p>",
      attachments: [{ filename: "a.csv", content: Buffer.from("x,y"), media_type: "text/csv" }],
    });
    expect(sent.accepted).toEqual(["ada@example.org", "bob@example.org", "eve@example.org"]);
    expect(server.received).toHaveLength(1);
    const [got] = server.received;
    expect(got).toMatchObject({ from: "errand@errand.example", user: "ada" });
    expect(got?.raw).toContain("Subject: Hello");
    expect(got?.raw).toContain("Reply-To: desk@example.org");
    expect(got?.raw).toContain("text/csv");
    expect(got?.raw).not.toContain("eve@example.org");
  });

  test("carries the same Message-ID on every try of one letter", async () => {
    await using server = await smtpServer();
    const mail = mailOf(server.url);
    const first = await mail.send({ ...letter, idempotencyKey: "run/1" });
    const again = await mail.send({ ...letter, idempotencyKey: "run/1" });
    const other = await mail.send({ ...letter, idempotencyKey: "run/2" });
    expect(again.message_id).toBe(first.message_id);
    expect(other.message_id).not.toBe(first.message_id);
  });

  test("of the operator's server comes from the operator's address, whatever the letter says", async () => {
    await using server = await smtpServer();
    await mailOf(server.url, { mail_from: "Errand <desk@own.example>" }).send({
      ...letter,
      from: "boss@other.example",
    });
    expect(server.received[0]?.from).toBe("desk@own.example");
  });

  test("of a connection's server comes from the letter's sender, else the connection's", async () => {
    await using server = await smtpServer();
    const own: SmtpServer = {
      host: "127.0.0.1",
      port: server.port,
      security: "auto",
      from: "us@own.example",
      trusted: false,
    };
    const mail = mailOf(undefined, { allow: ["loopback"] });
    await mail.send(letter, { server: own });
    await mail.send({ ...letter, from: "Ada <ada@own.example>" }, { server: own });
    expect(server.received.map((one) => one.from)).toEqual(["us@own.example", "ada@own.example"]);
  });

  test("does not go to a private server that a user named", async () => {
    await using server = await smtpServer();
    const named = (host: string): SmtpServer => ({
      host,
      port: server.port,
      security: "auto",
      from: "a@b.example",
      trusted: false,
    });
    const mail = mailOf();
    for (const host of ["127.0.0.1", "localhost", "::1", "169.254.169.254", "[::ffff:127.0.0.1]", "a b"]) {
      expect(await failure(mail.send(letter, { server: named(host) }))).toMatchObject({
        code: "BLOCKED",
        retryable: false,
      });
    }
    expect(server.received).toEqual([]);
  });

  test("fails without a server, and says what to set", async () => {
    const mail = mailOf();
    expect(mail.configured).toBe(false);
    expect(await failure(mail.send(letter))).toMatchObject({ code: "NOT_CONFIGURED" });
  });

  test.each<Partial<Letter>>([
    { to: [] },
    { to: ["nobody"] },
    { to: ["a@b.example, c@d.example"] },
    { to: ["a@b.example\r\nBcc: c@d.example"] },
    { to: ["a@b.example"], cc: ["x"] },
    { to: ["a@b.example"], reply_to: "x" },
  ])("is not sent with an address that is none: %j", async (addresses) => {
    const mail = mailOf("smtp://127.0.0.1:1");
    expect(await failure(mail.send({ ...letter, ...addresses }))).toMatchObject({ code: "BAD_LETTER" });
  });

  test("cannot be given headers by its subject", async () => {
    await using server = await smtpServer();
    await mailOf(server.url).send({ ...letter, subject: "Hi\r\nBcc: eve@example.org\r\n\r\nbody" });
    expect(server.received[0]?.to).toEqual(["ada@example.org"]);
    expect(server.received[0]?.raw).not.toMatch(/^Bcc:/m);
  });

  test("tells a wrong password from a refusal and from a passing fault, and quotes no server", async () => {
    await using server = await smtpServer({
      onRcptTo({ address }, _session, done) {
        const code = { "no@example.org": 550, "later@example.org": 451 }[address];
        done(code ? Object.assign(new Error("canary-answer"), { responseCode: code }) : null);
      },
    });
    const wrong = await failure(mailOf(`smtp://ada:wrong@127.0.0.1:${server.port}`).send(letter));
    expect(wrong).toMatchObject({ code: "MAIL_LOGIN", retryable: false });
    const mail = mailOf(server.url);
    const refused = await failure(mail.send({ ...letter, to: ["no@example.org"] }));
    expect(refused).toMatchObject({ code: "MAIL_REFUSED", retryable: false });
    const later = await failure(mail.send({ ...letter, to: ["later@example.org"] }));
    expect(later).toMatchObject({ code: "MAIL_REFUSED", retryable: true });
    for (const error of [wrong, refused, later]) expect(error.message).not.toContain("canary");
    expect(await mail.send({ ...letter, to: ["no@example.org", "yes@example.org"] })).toMatchObject({
      accepted: ["yes@example.org"],
      rejected: ["no@example.org"],
    });
  });

  test("does not tell a password to a server whose certificate is not in order", async () => {
    let asked = false;
    await using server = await smtpServer({
      hideSTARTTLS: false,
      onAuth(_auth, _session, done) {
        asked = true;
        done(null, { user: "x" });
      },
    });
    const own: SmtpServer = {
      host: "127.0.0.1",
      port: server.port,
      security: "starttls",
      username: "ada",
      password: "right",
      from: "a@b.example",
      trusted: true,
    };
    expect(await failure(mailOf().send(letter, { server: own }))).toMatchObject({ code: "MAIL_TLS" });
    expect(asked).toBe(false);
    await using plain = await smtpServer();
    const bare = { ...own, port: plain.port };
    expect(await failure(mailOf().send(letter, { server: bare }))).toMatchObject({ code: "MAIL_TLS" });
    expect(plain.received).toEqual([]);
  });

  test("gives up on a server that says nothing, and when its run is cancelled", async () => {
    const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const mail = mailOf(`smtp://127.0.0.1:${silent.port}`, { timeoutMs: 20 });
    expect(await failure(mail.send(letter))).toMatchObject({ code: "TIMEOUT", retryable: true });
    const cancelled = { signal: AbortSignal.abort() };
    expect(await failure(mail.send(letter, cancelled))).toMatchObject({ code: "ABORTED", retryable: false });
    silent.stop(true);
    expect(await failure(mail.send(letter))).toMatchObject({ code: "MAIL_UNREACHABLE", retryable: true });
  });

  test("goes to the owner of a workspace where there are an owner and a server", async () => {
    await using server = await smtpServer();
    const alert = { subject: "Paused", text: "The receiver did not answer." };
    expect(await mailOf(server.url, { owner: "ada@example.org" }).sendToOwner("w", alert)).toBe("sent");
    expect(server.received[0]?.to).toEqual(["ada@example.org"]);
    expect(await mailOf(server.url).sendToOwner("w", alert)).toBe("no_owner");
    expect(await mailOf(undefined, { owner: "ada@example.org" }).sendToOwner("w", alert)).toBe("no_server");
  });
});

describe("smtp_url", () => {
  test.each([
    [
      "smtps://a%40b.example:p%2Fw@mail.example",
      { port: 465, security: "tls", username: "a@b.example", password: "p/w", from: "a@b.example" },
    ],
    ["smtp://user:pw@mail.example", { port: 587, security: "starttls" }],
    ["smtp://user:pw@127.0.0.1:25", { port: 25, security: "auto" }],
    ["smtp://mail.example:2525", { host: "mail.example", port: 2525, security: "auto" }],
  ] as const)("%s is read", (url, server) => {
    expect(serverOfUrl(url)).toMatchObject({ ...server, trusted: true });
  });
});

describe("an address", () => {
  test.each(["a@b", "Ada Lovelace <ada@b.example>", '"Lovelace, Ada" <ada@b.example>', " a@b "])(
    "%s",
    (text) => {
      expect(addressIn(text)).toMatch(/^[^\s@]+@[^\s@]+$/);
    },
  );

  test("never holds a second one, a line break or a route", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "@", "<", ">", ",", " ", "\r", "\n", '"', ";", ":") }),
        (text) => {
          const found = addressIn(text);
          if (found !== undefined) expect(found).toMatch(/^[^\s@<>,;:"]+@[^\s@<>,;:"]+$/);
          if (found !== undefined && !text.includes('"')) expect(text.trim()).not.toMatch(/[\r\n,;:]/);
        },
      ),
    );
  });
});
