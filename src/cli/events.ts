import { ListEvents } from "../events/schema.ts";
import { checked } from "./body.ts";
import { type Call, callerOf, reaching, withServices } from "./command.ts";
import { putJson, putList, putRecord } from "./output.ts";

export const listEvents = (call: Call) =>
  withServices(call, async (services) => {
    const { limit, event, subject, since, until } = call.flags;
    const asked = checked(ListEvents, { limit: limit ?? "50", event, subject_id: subject, since, until });
    const { items } = await services.eventRecords.list(await callerOf(call, services), asked);
    putList(
      call,
      items,
      [
        { title: "TIME", value: (one) => one.timestamp },
        { title: "EVENT", value: (one) => one.event },
        { title: "SUBJECT", value: (one) => one.subject_id },
        {
          title: "OUTCOMES",
          value: (one) =>
            Object.entries(one.outcomes)
              .map(([outcome, count]) => `${count} ${outcome}`)
              .join(", "),
        },
        { title: "ID", value: (one) => one.id },
      ],
      "no events on record; they are kept once a webhook lists them",
    );
  });

export const showEvent = (call: Call) =>
  withServices(call, async (services) => {
    const event = await reaching(call, services, (caller) =>
      services.eventRecords.get(caller, call.args[0]!),
    );
    if (call.flags["json"]) return putJson(call.output, event);
    const { webhooks, ...rest } = event;
    putRecord(call, rest);
    call.output.data("\n");
    putList(
      call,
      webhooks,
      [
        { title: "WEBHOOK", value: (one) => one.name ?? one.webhook_id },
        { title: "OUTCOME", value: (one) => one.outcome },
        { title: "ATTEMPTS", value: (one) => `${one.attempts}/${one.attempts_max}` },
        { title: "DELIVERY", value: (one) => one.delivery_id },
        { title: "WHY", value: (one) => one.reason },
      ],
      "no webhooks",
    );
  });
