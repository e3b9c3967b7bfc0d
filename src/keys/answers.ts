import Type from "typebox";
import { answers } from "../lib/schema.ts";

const text = Type.String();
const at = Type.String({ format: "date-time" });
const atOrNull = Type.Union([at, Type.Null()]);
const named = Type.Object({ id: text, name: text });

const key = {
  id: text,
  name: text,
  workspace_id: text,
  project_id: text,
  prefix: Type.String({ description: "Its public beginning, as it may appear in a log." }),
  last_four: text,
  status: Type.Enum(["active", "expired", "revoked"]),
  created_at: at,
  expires_at: atOrNull,
  revoked_at: atOrNull,
  last_used_at: atOrNull,
};
export const KeyAnswer = answers(Type.Object(key));
export const KeyList = answers(Type.Array(Type.Object(key)));
export const NewKeyAnswer = answers(Type.Object({ ...key, key: text }));

export const Me = answers(
  Type.Object({
    key_id: text,
    name: text,
    workspace: named,
    project: named,
    prefix: text,
    last_four: text,
    created_at: at,
    expires_at: atOrNull,
    last_used_at: atOrNull,
  }),
);
