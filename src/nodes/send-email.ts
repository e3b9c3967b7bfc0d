import Type from "typebox";
import type { OpenConnection } from "../connections/types.ts";
import { MailError, type SmtpServer } from "../mail/mail.ts";
import { connectionField, openConnection } from "./connection.ts";
import { defineNode, NodeError } from "./node.ts";

const LARGEST_ATTACHMENTS = 10 * 1024 * 1024;
const recipients = (description: string) =>
  Type.Union(
    [Type.String({ maxLength: 10_000 }), Type.Array(Type.String({ maxLength: 320 }), { maxItems: 100 })],
    { description: `${description}: an address, several separated by commas, or a list.` },
  );

export const sendEmail = defineNode({
  name: "send_email",
  title: "Send e-mail",
  description: "Hands a mail to the configured mail server.",
  effect: "external",
  // Tries of one mail have one Message-ID, by which most mailboxes see a repeat as one.
  connections: ["smtp"],
  retries: { max_attempts: 3, delay_seconds: 30, backoff_multiplier: 4 },
  input: Type.Object(
    {
      connection: connectionField("Mail server to use in place of the configured one"),
      to: recipients("Whom it is for"),
      cc: Type.Optional(recipients("Who gets a copy")),
      bcc: Type.Optional(recipients("Who gets a copy unseen")),
      from: Type.Optional(
        Type.String({
          maxLength: 320,
          description: "Sender; with a connection alone, the configured server has its own.",
        }),
      ),
      reply_to: Type.Optional(Type.String({ maxLength: 320, description: "Where answers go." })),
      subject: Type.String({ minLength: 1, maxLength: 998, description: "One line." }),
      text: Type.Optional(Type.String({ description: "The mail as plain text." })),
      html: Type.Optional(Type.String({ description: "The mail as HTML, beside the text or alone." })),
      attachments: Type.Optional(
        Type.Array(
          Type.Object(
            {
              filename: Type.String({ minLength: 1, maxLength: 255, description: "What it is called." }),
              content: Type.Optional(Type.String({ description: "Its content as text." })),
              content_base64: Type.Optional(Type.String({ description: "Its content in base64." })),
              media_type: Type.Optional(Type.String({ maxLength: 200, description: "Such as text/csv." })),
            },
            { additionalProperties: false },
          ),
          { maxItems: 20, description: "Files that go along, 10 MiB in all." },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    message_id: Type.String({ description: "The mail's Message-ID." }),
    accepted: Type.Array(Type.String(), { description: "Recipients the server took it for." }),
    rejected: Type.Array(Type.String(), { description: "Recipients the server refused." }),
  }),
  check: ({ text, html }) =>
    text === undefined && html === undefined
      ? [{ field: "text", expected: "text or html", received: "neither" }]
      : [],
  async run({ connection, to, cc, bcc, attachments = [], ...letter }, run) {
    const { mail, idempotencyKey, signal } = run;
    const files = attachments.map(({ filename, content, content_base64, media_type }) => ({
      filename,
      content:
        content_base64 === undefined ? Buffer.from(content ?? "") : Buffer.from(content_base64, "base64"),
      media_type,
    }));
    if (files.reduce((sum, { content }) => sum + content.length, 0) > LARGEST_ATTACHMENTS) {
      throw new NodeError("TOO_LARGE", `Attachments are over ${LARGEST_ATTACHMENTS} bytes.`);
    }
    const smtp = await openConnection(run, connection, ["smtp"]);
    try {
      const sent = await mail.send(
        { ...letter, to: listOf(to), cc: listOf(cc), bcc: listOf(bcc), attachments: files, idempotencyKey },
        { signal, server: smtp && serverOf(smtp) },
      );
      return { output: sent, external_calls: 1 };
    } catch (error) {
      if (error instanceof MailError)
        throw new NodeError(error.code, error.message, { retryable: error.retryable });
      throw error;
    }
  },
});

// A comma may stand in a name in quotes: there it separates nothing.
const listOf = (given: string | string[] | undefined): string[] =>
  typeof given === "string"
    ? (given.match(/(?:"[^"]*"|[^",])+/g) ?? []).map((one) => one.trim()).filter((one) => one !== "")
    : (given ?? []);

function serverOf({
  host,
  port,
  security = "starttls",
  username,
  password,
  from,
}: Extract<OpenConnection, { type: "smtp" }>): SmtpServer {
  const usual = security === "tls" ? 465 : 587;
  return { host, port: port ?? usual, security, username, password, from, trusted: false };
}
