import { ListExecutions } from "../executions/schema.ts";
import type { Caller } from "../keys/schema.ts";
import type { Services } from "../services.ts";
import { checked } from "./body.ts";
import { type Call, callersOf, reaching, withServices } from "./command.ts";
import { EXIT } from "./exit.ts";
import { follow, hasEnded, news, summary } from "./follow.ts";
import { putJson, putList, putRecord } from "./output.ts";

export const listRuns = (call: Call) =>
  withServices(call, async (services) => {
    const { limit = "50", workflow: workflow_id, status, source: trigger_source, since, until } = call.flags;
    const asked = checked(ListExecutions, { limit, workflow_id, status, trigger_source, since, until });
    const lists =
      workflow_id === undefined
        ? await Promise.all(
            (await callersOf(call, services)).map((caller) =>
              services.executionLists.ofProject(caller, asked),
            ),
          )
        : [await reaching(call, services, (caller) => services.executionLists.ofProject(caller, asked))];
    const items = lists
      .flatMap((list) => list.items)
      .sort((a, b) => b.created_at.localeCompare(a.created_at) || b.id.localeCompare(a.id))
      .slice(0, asked.limit);
    putList(
      call,
      items,
      [
        { title: "ID", value: (one) => one.id },
        { title: "WORKFLOW", value: (one) => one.workflow_id },
        { title: "STATUS", value: (one) => one.status },
        { title: "SOURCE", value: (one) => one.trigger_source },
        { title: "CREATED", value: (one) => one.created_at },
        { title: "SECONDS", value: (one) => one.duration_seconds },
        { title: "STEPS", value: (one) => one.steps_completed },
        { title: "ERROR", value: (one) => (one.error as { message?: string } | null)?.message },
      ],
      "no runs on record; make one: errand workflows run ID --input JSON",
    );
  });

const onRun = <T>(call: Call, act: (services: Services, caller: Caller) => Promise<T>): Promise<T> =>
  withServices(call, (services) => reaching(call, services, (caller) => act(services, caller)));

export const showRun = (call: Call) =>
  onRun(call, async ({ executions }, caller) => {
    const execution = await executions.get(caller, call.args[0]!);
    if (call.flags["json"]) return putJson(call.output, execution);
    const { steps, ...record } = execution;
    putRecord(call, record);
    call.output.data("\n");
    putList(
      call,
      steps,
      [
        { title: "STEP", value: (one) => one.name },
        { title: "AT", value: (one) => one.position },
        { title: "TYPE", value: (one) => one.node_type_name },
        { title: "STATUS", value: (one) => one.status },
        { title: "ATTEMPTS", value: (one) => one.attempts },
        { title: "OUTPUT", value: (one) => (one.output === null ? "" : JSON.stringify(one.output)) },
        { title: "ERROR", value: (one) => (one.error as { message?: string } | null)?.message },
      ],
      "no steps",
    );
  });

/** The lines are the data here; with --follow they go on until the run ends. */
export const runLogs = (call: Call): Promise<number> =>
  onRun(call, async (services, caller) => {
    const id = call.args[0]!;
    const lines = { ...call, output: { ...call.output, words: call.output.data } };
    const execution = await services.executions.get(caller, id);
    const ended =
      call.flags["follow"] && !hasEnded(execution) ? await follow(lines, services, caller, id) : undefined;
    if (!ended) {
      for (const line of news(execution)) call.output.data(line);
      call.output.data(hasEnded(execution) ? summary(execution) : `${execution.status}\n`);
    }
    const status = (ended ?? execution).status;
    return status === "failed" || status === "cancelled" ? EXIT.failed : EXIT.ok;
  });

export const cancelRun = (call: Call) =>
  onRun(call, async ({ executions }, caller) => {
    const execution = await executions.cancel(caller, call.args[0]!);
    if (call.flags["json"]) putJson(call.output, execution);
    else call.output.words(`cancelled ${execution.id}\n`);
  });
