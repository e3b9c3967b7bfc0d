import { printableJson } from "../lib/terminal.ts";
import { DryRun, ReplayWebhook, TestWebhook } from "../webhooks/schema.ts";
import { checked, readBody } from "./body.ts";
import { type Call, reaching, text, withServices } from "./command.ts";
import { EXIT, ExitError } from "./exit.ts";
import { putJson, putList, putRecord } from "./output.ts";

const dataOf = ({ flags }: Call): Record<string, unknown> | undefined => {
  const from = text(flags, "from");
  return from === undefined ? undefined : readBody(from);
};

/** Sends a sample; exit code 5 when the receiver did not take it. */
export const testWebhook = (call: Call) =>
  withServices(call, async (services) => {
    const body = checked(TestWebhook, { event: text(call.flags, "event"), test_data: dataOf(call) });
    const result = await reaching(call, services, (caller) => services.testSend(caller, call.args[0]!, body));
    const { sent, received } = result;
    if (call.flags["json"]) putJson(call.output, result);
    else {
      putRecord(call, { sent: `${sent.method} ${sent.url}`, ...sent.headers });
      call.output.data(`\n${printableJson(sent.body)}\n\n`);
      putRecord(call, { event: result.event, ...received });
      call.output.data("\n");
      putRecord(call, result.verify);
    }
    if (!result.success) throw new ExitError(EXIT.refused, "the receiver did not take the sample");
  });

export const dryRunWebhook = (call: Call) =>
  withServices(call, async (services) => {
    const body = checked(DryRun, { event: text(call.flags, "event"), data: dataOf(call) });
    const result = await reaching(call, services, (caller) => services.dryRun(caller, call.args[0]!, body));
    if (call.flags["json"]) return putJson(call.output, result);
    const { conditions, payload, ...rest } = result;
    putRecord(call, rest);
    if (conditions.length > 0) {
      call.output.data("\n");
      putList(
        call,
        conditions,
        [
          { title: "FIELD", value: (one) => one.field },
          { title: "EXPECTED", value: (one) => JSON.stringify(one.expected) },
          { title: "OBSERVED", value: (one) => JSON.stringify(one.observed) },
          { title: "HOLDS", value: (one) => (one.holds ? "yes" : "no") },
        ],
        "",
      );
    }
    call.output.data(`\n${printableJson(payload)}\n`);
  });

export const redeliver = (call: Call) =>
  withServices(call, async (services) => {
    const [id, delivery] = call.args as [string, string];
    putRecord(
      call,
      (await reaching(call, services, (caller) => services.replays.redeliver(caller, id, delivery))).body,
    );
  });

/** Sends again what failed since a time, or what else became of it. */
export const replay = (call: Call) =>
  withServices(call, async (services) => {
    const { since, until, status } = call.flags;
    const events = text(call.flags, "events")?.split(",");
    const body = checked(ReplayWebhook, { since, until, status, events: events?.map((one) => one.trim()) });
    const answer = await reaching(call, services, (caller) =>
      services.replays.replay(caller, call.args[0]!, body),
    );
    putRecord(call, answer.body);
    const { next_since } = answer.body;
    if (next_since) call.output.words(`there is more: replay again with --since ${next_since}\n`);
  });
