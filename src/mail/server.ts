import { addressIn } from "../lib/mail-address.ts";

/** Where mail is handed in. `trusted`: the operator named it, so it may stand in a private network. */
export type SmtpServer = {
  host: string;
  port: number;
  /** tls: from the first byte. starttls: before anything else is said. auto: if the server offers it. */
  security: "tls" | "starttls" | "auto";
  username?: string;
  password?: string;
  /** Sender of letters that name none. */
  from?: string;
  trusted: boolean;
};

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/;

/**
 * Reads `smtp_url`: `smtps://user:password@host:port` speaks TLS from the first byte, `smtp://` changes to it
 * before a password is sent (not on this machine itself). Port 465 or 587 unless given.
 */
export function serverOfUrl(text: string): SmtpServer {
  const { protocol, hostname, port, username, password } = new URL(text);
  const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  const tls = protocol === "smtps:";
  const user = username === "" ? undefined : decodeURIComponent(username);
  return {
    host,
    port: port === "" ? (tls ? 465 : 587) : Number(port),
    security: tls ? "tls" : user !== undefined && !LOOPBACK.test(hostname) ? "starttls" : "auto",
    ...(user === undefined ? {} : { username: user, password: decodeURIComponent(password) }),
    ...(user !== undefined && addressIn(user) ? { from: user } : {}),
    trusted: true,
  };
}
