import { Elysia } from "elysia";
import { stretch } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import type { EventRecords } from "./records.ts";
import { EventList, EventRecord, ListEvents } from "./schema.ts";

const tags = ["events"];

/** What happened and what became of it; mounted under /api/v1 beside the webhooks. */
export const eventRoutes = ({ eventRecords }: { eventRecords: EventRecords }) =>
  new Elysia({ name: "events.routes" })
    .use(policies)
    .get(
      "/events",
      async ({ caller, query, request, set }) =>
        stretch(set, request, await eventRecords.list(caller, query)),
      {
        policy: "key",
        query: ListEvents,
        response: EventList,
        detail: { summary: "List events, newest first; Link says where the list goes on", tags },
      },
    )
    .get("/events/:id", ({ caller, params }) => eventRecords.get(caller, params.id), {
      policy: "key",
      response: EventRecord,
      detail: { summary: "Read an event and what became of it at every webhook", tags },
    });
