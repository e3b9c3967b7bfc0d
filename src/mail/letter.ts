import type { Fault } from "../lib/errors.ts";
import { ADDRESS, addressIn } from "../lib/mail-address.ts";

/** A mail as nodes and alerts write it. Addresses are `a@b.example` or `Name <a@b.example>`. */
export type Letter = {
  to: string[];
  cc?: string[];
  bcc?: string[];
  /** Only where the server is the sender's own; the operator's server sends from the operator's address. */
  from?: string;
  reply_to?: string;
  subject: string;
  text?: string;
  html?: string;
  attachments?: Attachment[];
  /** The same on every try of one mail: its Message-ID is made of it, so that a mailbox can tell a repeat. */
  idempotencyKey?: string;
};

export type Attachment = { filename: string; content: Uint8Array; media_type?: string };

/** What is wrong with the addresses of a letter. */
export function letterFaults({ to, cc = [], bcc = [], from, reply_to }: Letter): Fault[] {
  const lists = Object.entries({ to, cc, bcc }).flatMap(([field, texts]) =>
    texts.map((text, index) => [`${field}.${index}`, text] as const),
  );
  const single = Object.entries({ from, reply_to }).filter(([, text]) => text !== undefined);
  const faults: Fault[] = [...lists, ...(single as [string, string][])]
    .filter(([, text]) => addressIn(text) === undefined)
    .map(([field]) => ({ field, expected: ADDRESS, received: "another text" }));
  if (lists.length === 0) faults.unshift({ field: "to", expected: "a recipient", received: "none" });
  return faults;
}
