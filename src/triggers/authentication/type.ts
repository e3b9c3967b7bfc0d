import type { TObject } from "typebox";
import type { Fault } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";

/** A request as its sender made it: what a signature is made over. `body`: the bytes as they came. */
export type Sent = { headers: Headers; body: Uint8Array };

/** `secrets`: the one in force and, while a rotation overlaps, the one before it. `now` in epoch milliseconds. */
export type Proof = { config: JsonObject; secrets: string[]; now: number };

/** The sender's own name for a request; `isWhole`: it stands for the body too, which may differ when sent again. */
export type SenderKey = { key: string; isWhole: boolean };

/**
 * A way for a trigger to know its sender: `auth_config.type`. One file and one line in `index.ts` each.
 */
export type Authentication = {
  type: string;
  description: string;
  /** The fields beside `type`, the secret's own included. */
  fields: TObject;
  /** The field that is secret: sealed and never shown. Undefined: there is none. */
  secret?: string;
  /** A fresh secret where none was given; undefined: the sender issues it. */
  makeSecret?(): string;
  /** What is wrong with a secret that the schema cannot tell. */
  secretFault?(secret: string): Pick<Fault, "expected" | "received"> | undefined;
  /** Why the sender is not recognised, in words for the trigger's owner alone; undefined: it is. */
  refusal(sent: Sent, proof: Proof): string | undefined;
  /** Names of the headers, lower case, that carry credentials. */
  credentials(config: JsonObject): string[];
  /** The sender's own name for this request, by which a repetition is known. */
  senderKey?(headers: Headers, body: unknown): SenderKey | undefined;
  /** What a sender is answered that only asks whether this address is meant: no work is started. */
  challenge?(body: unknown): JsonObject | undefined;
  /** The body without a credential that the sender puts into it. */
  withoutCredentials?(body: unknown): unknown;
};

export const defineAuthentication = (authentication: Authentication): Authentication => authentication;
