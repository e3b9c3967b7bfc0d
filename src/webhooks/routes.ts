import { Elysia } from "elysia";
import type { Alerts } from "../alerts/service.ts";
import { startContext } from "../hooks/idempotency.ts";
import { answerWith, created, noContent } from "../http/answers.ts";
import { page, stretch } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import { checkedLater } from "../lib/schema.ts";
import {
  AlertList,
  DeliveryRecord,
  DryRunAnswer,
  EgressIps,
  LogEntry,
  Logs,
  NewWebhookRecord,
  ReplayAnswer,
  SecretAnswer,
  Stats,
  TestAnswer,
  WebhookList,
  WebhookRecord,
} from "./answers.ts";
import type { Deliveries } from "./deliveries.ts";
import type { DryRunning } from "./dry-run.ts";
import type { Replays } from "./replay.ts";
import {
  CreateWebhook,
  DryRun,
  ListLogs,
  ListWebhooks,
  ReadStats,
  ReplayWebhook,
  RotateSecret,
  TestWebhook,
  UpdateWebhook,
} from "./schema.ts";
import type { Webhooks } from "./service.ts";
import type { TestSend } from "./test-send.ts";

const tags = ["webhooks"];
const about = (summary: string) => ({ policy: "key" as const, detail: { summary, tags } });

/** Interface 4.5; mounted under /api/v1 whatever the deployment. */
export const webhookRoutes = ({
  webhooks,
  deliveries,
  testSend,
  dryRun,
  alerts,
  replays,
}: {
  webhooks: Webhooks;
  deliveries: Deliveries;
  testSend: TestSend;
  dryRun: DryRunning;
  alerts: Pick<Alerts, "list">;
  replays: Replays;
}) =>
  new Elysia({ name: "webhooks.routes" })
    .use(policies)
    .post("/webhooks", async ({ caller, body, set }) => created(set, await webhooks.create(caller, body)), {
      ...about("Create a webhook; the answer shows its signing secret"),
      body: checkedLater(CreateWebhook),
      response: { 201: NewWebhookRecord },
    })
    .get(
      "/webhooks",
      async ({ caller, query, request, set }) => ({
        webhooks: page(set, request, await webhooks.list(caller, query)),
      }),
      { ...about("List the webhooks of the project"), query: ListWebhooks, response: WebhookList },
    )
    .get("/webhooks/:id", ({ caller, params }) => webhooks.get(caller, params.id), {
      ...about("Read a webhook"),
      response: WebhookRecord,
    })
    .put("/webhooks/:id", ({ caller, params, body }) => webhooks.update(caller, params.id, body), {
      ...about("Change a webhook"),
      body: checkedLater(UpdateWebhook),
      response: WebhookRecord,
    })
    .delete(
      "/webhooks/:id",
      async ({ caller, params, set }) => noContent(set, await webhooks.remove(caller, params.id)),
      about("Delete a webhook; what is under way to it is cancelled"),
    )
    .get("/webhooks/:id/secret", ({ caller, params }) => webhooks.secret(caller, params.id), {
      ...about("Show the signing secret"),
      response: SecretAnswer,
    })
    .post(
      "/webhooks/:id/secret/rotate",
      ({ caller, params, query }) => webhooks.rotateSecret(caller, params.id, query),
      {
        ...about("Issue a new signing secret; the old one signs beside it for overlap_seconds"),
        query: RotateSecret,
        response: SecretAnswer,
      },
    )
    .post("/webhooks/:id/pause", ({ caller, params }) => webhooks.pause(caller, params.id), {
      ...about("Stop sending; events are kept"),
      response: WebhookRecord,
    })
    .post("/webhooks/:id/resume", ({ caller, params }) => webhooks.resume(caller, params.id), {
      ...about("Send again, what was kept first"),
      response: WebhookRecord,
    })
    .post("/webhooks/:id/test", ({ caller, params, body }) => testSend(caller, params.id, body), {
      ...about("Send a sample now and show both sides of it"),
      body: TestWebhook,
      response: TestAnswer,
    })
    .post("/webhooks/:id/dry-run", ({ caller, params, body }) => dryRun(caller, params.id, body), {
      ...about("Tell what would become of an event, and the bytes that would be sent"),
      body: DryRun,
      response: DryRunAnswer,
    })
    .get(
      "/webhooks/:id/logs",
      async ({ caller, params, query, request, set }) => ({
        logs: stretch(set, request, await deliveries.logs(caller, params.id, query)),
      }),
      {
        ...about("List deliveries, newest first; Link says where the list goes on"),
        query: ListLogs,
        response: Logs,
      },
    )
    .get("/webhooks/:id/stats", ({ caller, params, query }) => deliveries.stats(caller, params.id, query), {
      ...about("Read counts, success rate and response times, by event and by hour"),
      query: ReadStats,
      response: Stats,
    })
    .get("/webhooks/:id/alerts", ({ caller, params }) => alerts.list(caller, params.id), {
      ...about("List what its owner was told of it, newest first"),
      response: AlertList,
    })
    .get(
      "/webhooks/:id/deliveries/:delivery_id",
      ({ caller, params }) => deliveries.get(caller, params.id, params.delivery_id),
      { ...about("Read a delivery with its payload and every attempt"), response: DeliveryRecord },
    )
    .post(
      "/webhooks/:id/deliveries/:delivery_id/redeliver",
      async ({ caller, params, request, set }) =>
        answerWith(
          set,
          await replays.redeliver(
            caller,
            params.id,
            params.delivery_id,
            claimOn(request, params.delivery_id),
          ),
        ),
      { ...about("Send a delivery's event once more"), response: { 202: LogEntry } },
    )
    .post(
      "/webhooks/:id/replay",
      async ({ caller, params, body, request, set }) =>
        answerWith(set, await replays.replay(caller, params.id, body, claimOn(request, params.id))),
      {
        ...about("Send again what failed since a time, or what else became of it; 10,000 at most"),
        body: ReplayWebhook,
        response: { 202: ReplayAnswer },
      },
    );

const claimOn = (request: Request, id: string) => startContext(request, `webhooks/${id}`).idempotency;

/** Interface 5.3.4: where deliveries come from, for allow-lists; what the operator configured. */
export const egressIpRoutes = ({ egress_ips }: { egress_ips: string[] }) =>
  new Elysia({ name: "webhooks.egress-ips" }).use(policies).get("/egress-ips", () => ({ egress_ips }), {
    policy: "public",
    response: EgressIps,
    detail: { summary: "List the addresses that deliveries come from", tags },
  });
