import { LRUCache } from "lru-cache";
import type { Vault } from "../lib/vault.ts";
import type { Authentication } from "./authentication.ts";

type Sealed = {
  id: string;
  secret: string;
  previous_secret: string | null;
  authentication: string | null;
  headers: string | null;
};
type Opened = {
  secret: string;
  /** Whether it still signs is for the caller to say. */
  previous_secret?: string;
  authentication?: Authentication;
  headers?: Record<string, string>;
};
type Field = "secret" | "authentication" | "headers";

const place = (id: string, field: Field): string => `subscriptions.${field}:${id}`;

export const sealText = (vault: Vault, id: string, field: Field, text: string): string =>
  vault.seal(text, place(id, field));

// By the sealed texts themselves, each sealed anew when it changes: an entry can never be out of date.
const opened = new LRUCache<string, Opened>({ max: 1_000 });

/** What a delivery carries besides its body, out of the sealed columns of a subscription. */
export function openSubscription(vault: Vault, row: Sealed): Opened {
  let seen = rows.get(row);
  if (!seen) {
    seen = openText(vault, row);
    rows.set(row, seen);
  }
  return seen;
}

// Nearly always the row is the one of the delivery before, and nobody changes a row that was read.
const rows = new WeakMap<Sealed, Opened>();

function openText(vault: Vault, row: Sealed): Opened {
  const key = `${row.id} ${row.secret} ${row.previous_secret} ${row.authentication} ${row.headers}`;
  let known = opened.get(key);
  if (!known) {
    known = unseal(vault, row);
    opened.set(key, known);
  }
  return known;
}

function unseal(vault: Vault, row: Sealed): Opened {
  const open = (field: "authentication" | "headers") => {
    const sealed = row[field];
    return sealed === null ? undefined : JSON.parse(vault.open(sealed, place(row.id, field)));
  };
  const previous = row.previous_secret;
  return {
    secret: openSecret(vault, row),
    // Sealed when it was the secret, and moved as it is.
    previous_secret: previous === null ? undefined : openSecret(vault, { id: row.id, secret: previous }),
    authentication: open("authentication"),
    headers: open("headers"),
  };
}

export const openSecret = (vault: Vault, row: Pick<Sealed, "id" | "secret">): string =>
  vault.open(row.secret, place(row.id, "secret"));
