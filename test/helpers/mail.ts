import type { Egress } from "../../src/egress/egress.ts";
import { createMail } from "../../src/mail/mail.ts";

/** Mail as it is where nobody gave a mail server. */
export const unconfiguredMail = (egress: Egress) =>
  createMail({
    smtp_url: undefined,
    mail_from: undefined,
    domain: "errand.example",
    egress,
    ownerOf: async () => undefined,
  });
