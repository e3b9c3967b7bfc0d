import { type Egress, EgressError } from "../egress/egress.ts";
import { addressIn } from "../lib/mail-address.ts";
import { sha256Hex } from "../lib/secrets.ts";
import { type Letter, letterFaults } from "./letter.ts";
import { type SmtpServer, serverOfUrl } from "./server.ts";

export type { Attachment, Letter } from "./letter.ts";
export type { SmtpServer } from "./server.ts";

/** Why a mail was not handed in, in our words; a server's own never leave this file. */
export class MailError extends Error {
  constructor(
    readonly code:
      | "NOT_CONFIGURED"
      | "BAD_LETTER"
      | "BLOCKED"
      | "MAIL_UNREACHABLE"
      | "MAIL_TLS"
      | "MAIL_LOGIN"
      | "MAIL_REFUSED"
      | "TIMEOUT"
      | "ABORTED",
    message: string,
    readonly retryable = false,
  ) {
    super(message);
    this.name = "MailError";
  }
}

export type Sent = { message_id: string; accepted: string[]; rejected: string[] };

export type Mail = {
  /** Whether the operator gave a mail server (`smtp_url`). */
  configured: boolean;
  /**
   * Hands a letter to `server`, else to the operator's. Resolves when the server took it for at least one
   * recipient; those it would not take are `rejected`. Throws MailError.
   */
  send(letter: Letter, options?: { server?: SmtpServer; signal?: AbortSignal }): Promise<Sent>;
  /**
   * Tells the owner of a workspace something, by the operator's server. Answers why it was not sent where
   * that is nobody's fault: no server configured, or a workspace without an owner. Throws MailError.
   */
  sendToOwner(
    workspace_id: string,
    letter: { subject: string; text: string; idempotencyKey?: string },
  ): Promise<"sent" | "no_server" | "no_owner">;
};

type Deps = {
  smtp_url: string | undefined;
  mail_from: string | undefined;
  /** Domain of Message-IDs and of the sender where none is configured. */
  domain: string;
  egress: Pick<Egress, "locate">;
  ownerOf(workspace_id: string): Promise<string | undefined>;
  timeoutMs?: number;
};

const USUAL_TIMEOUT_MS = 30_000;

export function createMail(deps: Deps): Mail {
  const operators = deps.smtp_url === undefined ? undefined : serverOfUrl(deps.smtp_url);
  const operatorsAddress = deps.mail_from ?? operators?.from ?? `errand@${deps.domain}`;

  async function send(
    letter: Letter,
    { server = operators, signal }: { server?: SmtpServer; signal?: AbortSignal } = {},
  ): Promise<Sent> {
    if (!server) {
      throw new MailError(
        "NOT_CONFIGURED",
        "No mail server: set smtp_url, or name a connection of type smtp.",
      );
    }
    const fault = letterFaults(letter)[0];
    if (fault) throw new MailError("BAD_LETTER", `${fault.field}: expected ${fault.expected}`);
    const from = server === operators ? operatorsAddress : (letter.from ?? server.from);
    if (from === undefined)
      throw new MailError("BAD_LETTER", "from: expected a sender, as the connection has none");
    const limit = AbortSignal.timeout(deps.timeoutMs ?? USUAL_TIMEOUT_MS);
    try {
      return await handIn(server, { ...letter, from }, AbortSignal.any(signal ? [signal, limit] : [limit]));
    } catch (error) {
      if (signal?.aborted) throw new MailError("ABORTED", "The mail was given up.");
      if (limit.aborted) throw new MailError("TIMEOUT", "The mail server did not answer in time.", true);
      throw toMailError(error);
    }
  }

  async function handIn(
    server: SmtpServer,
    letter: Letter & { from: string },
    signal: AbortSignal,
  ): Promise<Sent> {
    // The connection goes to the address that was checked; the certificate is still that of the name.
    const address = await deps.egress.locate(server);
    signal.throwIfAborted();
    const { username, password } = server;
    // Loaded with the first mail: a start is quicker by what this takes.
    const { createTransport } = await import("nodemailer");
    const transport = createTransport({
      host: address,
      port: server.port,
      secure: server.security === "tls",
      requireTLS: server.security === "starttls",
      auth: username === undefined ? undefined : { user: username, pass: password ?? "" },
      tls: { servername: server.host },
      name: deps.domain,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    const { to, cc, bcc, from, reply_to, subject, text, html, attachments, idempotencyKey } = letter;
    const sent = await transport.sendMail({
      from,
      to,
      cc,
      bcc,
      replyTo: reply_to,
      subject,
      text,
      html,
      attachments: attachments?.map(({ filename, content, media_type }) => ({
        filename,
        content: Buffer.from(content),
        contentType: media_type,
      })),
      messageId: idempotencyKey && `<${sha256Hex(idempotencyKey).slice(0, 32)}@${deps.domain}>`,
      signal,
    });
    const names = (given: (string | { address: string })[]) =>
      given.map((one) => (typeof one === "string" ? one : one.address));
    return { message_id: sent.messageId, accepted: names(sent.accepted), rejected: names(sent.rejected) };
  }

  return {
    configured: operators !== undefined,
    send,
    async sendToOwner(workspace_id, letter) {
      if (!operators) return "no_server";
      const owner = await deps.ownerOf(workspace_id);
      if (owner === undefined || addressIn(owner) === undefined) return "no_owner";
      await send({ ...letter, to: [owner] });
      return "sent";
    },
  };
}

// What nodemailer calls them; the texts it adds quote the server.
function toMailError(error: unknown): MailError {
  if (error instanceof MailError) return error;
  if (error instanceof EgressError) {
    if (error.class === "blocked" || error.class === "bad_url")
      return new MailError("BLOCKED", error.message);
    return new MailError("MAIL_UNREACHABLE", "The mail server cannot be reached.", true);
  }
  const { code, responseCode } = error as { code?: string; responseCode?: number };
  const answered = responseCode === undefined ? "" : ` (${responseCode})`;
  const later = responseCode !== undefined && responseCode >= 400 && responseCode < 500;
  switch (code) {
    case "EAUTH":
    case "ENOAUTH":
      return new MailError(
        "MAIL_LOGIN",
        `The mail server did not take user name and password${answered}.`,
        later,
      );
    case "ETLS":
      return new MailError(
        "MAIL_TLS",
        "No safe connection to the mail server: its TLS or certificate is not in order.",
      );
    case "EENVELOPE":
    case "EMESSAGE":
      return new MailError("MAIL_REFUSED", `The mail server refused the mail${answered}.`, later);
    default:
      if (/certificate|TLS|SSL/i.test(String((error as Error)?.message)))
        return toMailError({ code: "ETLS" });
      return new MailError(
        "MAIL_UNREACHABLE",
        `The mail server cannot be reached or broke off${answered}.`,
        true,
      );
  }
}
