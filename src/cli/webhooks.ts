import { printableJson } from "../lib/terminal.ts";
import type { Services } from "../services.ts";
import {
  type CreateWebhook,
  ListLogs,
  ReadStats,
  RotateSecret,
  type UpdateWebhook,
} from "../webhooks/schema.ts";
import { checked, readBody } from "./body.ts";
import { type Call, callerOf, callersOf, reaching, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putJson, putList, putRecord } from "./output.ts";

const MOST = 1_000;

export const listWebhooks = (call: Call) =>
  withServices(call, async (services) => {
    const lists = await Promise.all(
      (await callersOf(call, services)).map((caller) =>
        services.webhooks.list(caller, { limit: MOST, offset: 0 }),
      ),
    );
    putList(
      call,
      lists.flatMap((list) => list.items),
      [
        { title: "ID", value: (one) => one.id },
        { title: "NAME", value: (one) => one.name },
        { title: "STATUS", value: (one) => one.status },
        { title: "EVENTS", value: (one) => one.events.join(", ") },
        { title: "URL", value: (one) => one.url },
        { title: "SENT", value: (one) => one.delivery_stats.successful_deliveries },
        { title: "FAILED", value: (one) => one.delivery_stats.failed_deliveries },
      ],
      "no webhooks yet; make one: errand webhooks create --url URL --events KINDS",
    );
  });

export const createWebhook = (call: Call) =>
  withServices(call, async (services) => {
    const body = sent<CreateWebhook>(bodyOf(call.flags));
    const webhook = await services.webhooks.create(await callerOf(call, services), body);
    putRecord(call, webhook);
    call.output.words("Deliveries are signed with the secret; the receiver needs it.\n");
  });

export const showWebhook = (call: Call) =>
  withServices(call, async (services) =>
    putRecord(call, await reaching(call, services, (caller) => services.webhooks.get(caller, call.args[0]!))),
  );

export const updateWebhook = (call: Call) =>
  withServices(call, async (services) => {
    const body = sent<UpdateWebhook>(bodyOf(call.flags));
    if (Object.keys(body).length === 0)
      throw usageError("nothing to change", "give --url, --events, --name or --from");
    putRecord(
      call,
      await reaching(call, services, (caller) => services.webhooks.update(caller, call.args[0]!, body)),
    );
  });

export const deleteWebhook = (call: Call) =>
  withServices(call, async (services) => {
    await reaching(call, services, (caller) => services.webhooks.remove(caller, call.args[0]!));
    call.output.words(`deleted ${call.args[0]}\n`);
  });

export const showSecret = (call: Call) =>
  withServices(call, async (services) =>
    putRecord(
      call,
      await reaching(call, services, (caller) => services.webhooks.secret(caller, call.args[0]!)),
    ),
  );

export const rotateSecret = (call: Call) =>
  withServices(call, async (services) => {
    const { overlapSeconds } = call.flags;
    const request = checked(
      RotateSecret,
      overlapSeconds === undefined ? {} : { overlap_seconds: overlapSeconds },
    );
    putRecord(
      call,
      await reaching(call, services, (caller) =>
        services.webhooks.rotateSecret(caller, call.args[0]!, request),
      ),
    );
    call.output.words("Give the new secret to the receiver before the old one ends.\n");
  });

export const pauseWebhook = (call: Call) =>
  withServices(call, async (services) =>
    putRecord(
      call,
      await reaching(call, services, (caller) => services.webhooks.pause(caller, call.args[0]!)),
    ),
  );

export const resumeWebhook = (call: Call) =>
  withServices(call, async (services) =>
    putRecord(
      call,
      await reaching(call, services, (caller) => services.webhooks.resume(caller, call.args[0]!)),
    ),
  );

export const webhookLogs = (call: Call) =>
  withServices(call, async (services) => {
    const { limit, status, event, since, until } = call.flags;
    const filter = checked(ListLogs, { limit: limit ?? "50", status, event, since, until });
    const { items: logs } = await reaching(call, services, (caller) =>
      services.deliveries.logs(caller, call.args[0]!, filter),
    );
    putList(
      call,
      logs,
      [
        { title: "TIME", value: (one) => one.timestamp },
        { title: "EVENT", value: (one) => one.event },
        { title: "STATUS", value: (one) => one.status },
        { title: "CODE", value: (one) => one.response_code ?? one.error_class },
        { title: "MS", value: (one) => one.response_time_ms },
        { title: "ATTEMPTS", value: (one) => `${one.attempts}/${one.attempts_max}` },
        { title: "REASON", value: (one) => one.reason },
        { title: "DELIVERY", value: (one) => one.id },
      ],
      "no deliveries yet",
    );
  });

/** What was sent, and what came back each time. */
export const showDelivery = (call: Call) =>
  withServices(call, async (services) => {
    const [id, delivery] = call.args as [string, string];
    const found = await reaching(call, services, (caller) => services.deliveries.get(caller, id, delivery));
    if (call.flags["json"]) return putJson(call.output, found);
    const { history, payload, ...rest } = found;
    putRecord(call, rest);
    if (history.length > 0) {
      call.output.data("\n");
      putList(
        call,
        history,
        [
          { title: "ATTEMPT", value: (one) => one.number },
          { title: "TIME", value: (one) => one.timestamp },
          { title: "CODE", value: (one) => one.response_code ?? one.error_class },
          { title: "MS", value: (one) => one.response_time_ms },
          { title: "ERROR", value: (one) => one.error },
          { title: "ANSWER", value: (one) => one.response_excerpt },
        ],
        "",
      );
    }
    if (payload !== null) call.output.data(`\n${printableJson(payload)}\n`);
  });

export const webhookStats = (call: Call) =>
  withServices(call, async (services) => {
    const asked = checked(ReadStats, { hours: call.flags["hours"] });
    const stats = await reaching(call, services, (caller) =>
      services.deliveries.stats(caller, call.args[0]!, asked),
    );
    if (call.flags["json"]) return putJson(call.output, stats);
    const { window, ...figures } = stats;
    putRecord(call, figures);
    putFigures(call, `EVENT, ${window.hours} H`, window.by_event, (one) => one.event);
    putFigures(call, "HOUR", window.by_hour, (one) => one.hour);
  });

type Figures = Awaited<ReturnType<Services["deliveries"]["stats"]>>["window"]["by_event"][number];

function putFigures<Row extends Omit<Figures, "event">>(
  call: Call,
  title: string,
  rows: Row[],
  name: (row: Row) => string,
): void {
  if (rows.length === 0) return;
  call.output.data("\n");
  const columns = [
    { title, value: name },
    { title: "ATTEMPTS", value: (one: Row) => one.attempts },
    { title: "SENT", value: (one: Row) => one.successful_deliveries },
    { title: "FAILED", value: (one: Row) => one.failed_deliveries },
    { title: "FILTERED", value: (one: Row) => one.filtered_events },
    { title: "P50 MS", value: (one: Row) => one.response_time_ms.p50 },
    { title: "P95 MS", value: (one: Row) => one.response_time_ms.p95 },
    { title: "P99 MS", value: (one: Row) => one.response_time_ms.p99 },
  ];
  putList(call, rows, columns, "");
}

/** A request's body from --from (a JSON file, - for standard input) with the single flags over it. */
function bodyOf(flags: Call["flags"]): Record<string, unknown> {
  const { name, url, events } = {
    name: text(flags, "name"),
    url: text(flags, "url"),
    events: text(flags, "events"),
  };
  const from = text(flags, "from");
  return {
    ...(from === undefined ? {} : readBody(from)),
    ...(name === undefined ? {} : { name }),
    ...(url === undefined ? {} : { url }),
    ...(events === undefined ? {} : { events: events.split(",").map((one) => one.trim()) }),
  };
}

/** As a request would bring it, for the service to check: what is undefined here is not there. */
const sent = <T>(body: Record<string, unknown>): T => JSON.parse(JSON.stringify(body)) as T;
