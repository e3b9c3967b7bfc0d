import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";

/** Whom a key speaks for. */
export type Caller = { key_id: string; workspace_id: string; project_id: string };

const name = Type.String({ minLength: 1, maxLength: 200, description: "What the key is for." });
const expires_at = Type.Union([Type.String({ maxLength: 40 }), Type.Null()], {
  description: "When the key ends, ISO 8601; null or absent: never.",
});

export const CreateKey = json(
  Type.Object(
    {
      name,
      workspace_id: Type.Optional(Type.String({ description: "The calling key's own, where given." })),
      project_id: Type.Optional(Type.String({ description: "The calling key's own, where given." })),
      expires_at: Type.Optional(expires_at),
    },
    { additionalProperties: false },
  ),
);
export type CreateKey = Static<typeof CreateKey.schema>;

const LONGEST_OVERLAP_SECONDS = 30 * 86_400;

export const RotateKey = json(
  Type.Object(
    {
      overlap_seconds: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: LONGEST_OVERLAP_SECONDS,
          description: "How long the old key still works; a day unless given.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
);
export type RotateKey = Static<typeof RotateKey.schema>;

export const ListKeys = query(
  Type.Object({
    workspace_id: Type.Optional(Type.String()),
    project_id: Type.Optional(
      Type.String({ description: "Only this project's keys; the calling key's own." }),
    ),
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
  }),
);
export type ListKeys = Static<typeof ListKeys.schema>;

export type KeyRecord = {
  id: string;
  name: string;
  workspace_id: string;
  project_id: string;
  /** The key's public beginning, as it may appear in a log or a leak. */
  prefix: string;
  last_four: string;
  status: "active" | "expired" | "revoked";
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
};

/** The record with the key itself: answered once, where it is made, and kept nowhere. */
export type NewKey = KeyRecord & { key: string };
