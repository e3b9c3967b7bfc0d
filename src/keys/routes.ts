import { Elysia } from "elysia";
import { created, noContent } from "../http/answers.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import { KeyAnswer, KeyList, Me, NewKeyAnswer } from "./answers.ts";
import { CreateKey, ListKeys, RotateKey } from "./schema.ts";
import type { Keys } from "./service.ts";

const tags = ["keys"];

/** What a key may know and do about keys (interface 5.1, design 8). */
export const keyRoutes = ({ keys }: { keys: Keys }) =>
  new Elysia({ name: "keys.routes" })
    .use(policies)
    .get("/me", ({ caller }) => keys.me(caller), {
      policy: "key",
      response: Me,
      detail: { summary: "Read what the calling key is and reaches", tags },
    })
    .get(
      "/keys",
      async ({ caller, query, request, set }) => page(set, request, await keys.list(caller, query)),
      {
        policy: "key",
        query: ListKeys,
        response: KeyList,
        detail: { summary: "List the keys of the workspace", tags },
      },
    )
    .post("/keys", async ({ caller, body, set }) => created(set, await keys.create(caller, body)), {
      policy: "key",
      body: CreateKey,
      response: { 201: NewKeyAnswer },
      detail: { summary: "Create a key for the calling key's project; the answer alone shows it", tags },
    })
    .get("/keys/:id", ({ caller, params }) => keys.get(caller, params.id), {
      policy: "key",
      response: KeyAnswer,
      detail: { summary: "Read a key's record", tags },
    })
    .delete(
      "/keys/:id",
      ({ caller, params, set }) => keys.revoke(caller, params.id).then(() => noContent(set)),
      {
        policy: "key",
        detail: { summary: "Revoke a key", tags },
      },
    )
    .post(
      "/keys/:id/rotate",
      async ({ caller, params, body, set }) => created(set, await keys.rotate(caller, params.id, body)),
      {
        policy: "key",
        body: RotateKey,
        response: { 201: NewKeyAnswer },
        detail: { summary: "Replace a key; the old one works on for overlap_seconds", tags },
      },
    );
