import { withOutbox } from "../events/outbox.ts";
import type { StartContext } from "../hooks/idempotency.ts";
import type { Caller } from "../keys/schema.ts";
import { AppError, forbidden, notFound, unauthorized } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { sameSecret } from "../lib/secrets.ts";
import type { Vault } from "../lib/vault.ts";
import type { Definition, WorkflowTarget } from "../workflows/service.ts";
import { createAgain } from "./again.ts";
import { endedEvent } from "./events.ts";
import { followExecution, following, isEnded } from "./follow.ts";
import { runExecution } from "./jobs.ts";
import { createLinks, placeOf } from "./links.ts";
import { presentExecution, presentSteps } from "./present.ts";
import type { ExecutionError, StartExecution, TestStep } from "./schema.ts";
import { createStarts, type StartAnswer, type StartDeps } from "./start.ts";
import type { ExecutionRow } from "./store.ts";
import { testStep } from "./test-step.ts";
import type { Waiters } from "./waiters.ts";

export type { StartAnswer, StartRequest } from "./start.ts";

export type Executions = ReturnType<typeof createExecutions>;

const DEFAULT_WAIT_SECONDS = 30;

export function createExecutions(
  deps: StartDeps & {
    waiters: Waiters;
    vault: Pick<Vault, "seal" | "open">;
    baseUrl(): string;
    workflows: {
      target(id: string): Promise<WorkflowTarget | undefined>;
      definition(hash: string): Promise<Definition>;
      definitionHash(caller: Caller, id: string, version: number | "draft"): Promise<string>;
    };
  },
) {
  const { store, runner, clock, waiters, workflows, vault } = deps;
  const starts = createStarts(deps);
  const { start } = starts;
  const again = createAgain({ store, starts, definition: workflows.definition });

  async function inScope(caller: Caller, id: string): Promise<ExecutionRow> {
    const execution = isUuid(id) ? await store.get(id) : undefined;
    if (!execution) throw notFound("execution", id);
    if (execution.project_id !== caller.project_id) throw forbidden("This key cannot reach that execution.");
    return execution;
  }

  /** Ends an execution from outside, with all it waits for. False: it had ended already. */
  async function stop(execution: ExecutionRow, error: ExecutionError): Promise<boolean> {
    const { id } = execution;
    const at = clock.now();
    const ended = endedEvent(execution, {
      ...execution,
      status: "cancelled",
      started_at: execution.started_at ?? execution.created_at,
      at,
      input: JSON.parse(execution.input),
      output: null,
      error,
    });
    const stopped = await withOutbox(deps, execution, [ended], execution.hop, (outbox) =>
      store.stop({ id, state: "cancelled", error: JSON.stringify(error), ended_at: at, outbox }),
    );
    if (!stopped) return false;
    runner.cancel(id);
    waiters.ended(id);
    waiters.ended(following(id));
    if (execution.parent_waits) await runner.wake(execution.parent_id!);
    await cancelWaitedFor(id);
    return true;
  }

  async function cancelWaitedFor(id: string): Promise<void> {
    for (const child of await store.waitedFor(id)) await stop(child, NOT_WAITED_FOR);
  }

  async function targetInScope(caller: Caller, workflow_id: string): Promise<WorkflowTarget> {
    const target = isUuid(workflow_id) ? await workflows.target(workflow_id) : undefined;
    if (!target) throw notFound("workflow", workflow_id);
    if (target.project_id !== caller.project_id) throw forbidden("This key cannot reach that workflow.");
    return target;
  }

  async function get(caller: Caller, id: string) {
    const execution = await inScope(caller, id);
    return { ...presentExecution(execution), steps: presentSteps(await store.steps(id)) };
  }

  /**
   * Waits until an execution ends, at most `ms`, or `signal` aborts; then how it stands. Undefined: there is none.
   */
  async function wait(id: string, ms: number, signal?: AbortSignal): Promise<ExecutionRow | undefined> {
    const hasEnded = async () => {
      const row = await store.get(id);
      return row === undefined || isEnded(row);
    };
    await waiters.wait(id, ms, hasEnded, signal);
    return store.get(id);
  }

  /** The wait of that id, where every token presented is its own. */
  async function waitFor(id: string, tokens: string[]) {
    const wait = isUuid(id) ? await store.wait(id) : undefined;
    const token = wait && vault.open(wait.token, placeOf(id));
    if (!wait || !token || tokens.length === 0 || !tokens.every((each) => sameSecret(each, token))) {
      throw unauthorized("A valid token of this wait is required.");
    }
    return wait;
  }

  return {
    start,
    get,
    wait,

    /** How an execution stands, for whoever may start its workflow; undefined when there is none. */
    async status(id: string) {
      const row = isUuid(id) ? await store.get(id) : undefined;
      return row && presentExecution(row);
    },

    /**
     * Starts a run for a key's holder. 202 with {execution_id, status, estimated_completion}; with
     * `response_type: "result"` 200 with the ended execution, or 202 when `timeout_seconds` ran out.
     */
    async startByKey(
      caller: Caller,
      workflow_id: string,
      body: StartExecution,
      context: StartContext,
    ): Promise<StartAnswer> {
      const found = await targetInScope(caller, workflow_id);
      const target =
        body.version === undefined
          ? found
          : { ...found, definition_hash: await workflows.definitionHash(caller, workflow_id, body.version) };
      const answer = await start(target, {
        input: (body.input_data ?? {}) as JsonObject,
        source: body.trigger_source ?? "api",
        metadata: (body.metadata ?? {}) as JsonObject,
        ...context,
        answer: ({ execution_id, estimated_completion }) => ({
          status: 202,
          body: { execution_id, status: "queued", estimated_completion },
        }),
      });
      const execution_id = String(answer.body["execution_id"]);
      if (body.response_type === "stream") return { ...answer, follow: execution_id };
      if (body.response_type !== "result") return answer;
      await wait(execution_id, (body.timeout_seconds ?? DEFAULT_WAIT_SECONDS) * 1_000);
      const execution = await get(caller, execution_id);
      const hasEnded = execution.completed_at !== null;
      return {
        status: hasEnded ? 200 : 202,
        body: execution as unknown as JsonObject,
        replayed: answer.replayed,
      };
    },

    /** The execution as it goes, as server-sent events; `last` is the Last-Event-ID of a stream that broke off. */
    async follow(caller: Caller, id: string, last: string | null): Promise<Response> {
      await inScope(caller, id);
      return followExecution(deps, id, /^\d{1,15}$/.test(last ?? "") ? Number(last) : 0);
    },

    retry: async (caller: Caller, id: string, from_node: string | undefined, context: StartContext) =>
      again.retry(await inScope(caller, id), from_node, context),

    replay: async (caller: Caller, id: string, input: JsonObject | undefined, context: StartContext) =>
      again.replay(await inScope(caller, id), input, context),

    /** Runs one node alone; see `testStep`. */
    async testStep(caller: Caller, workflow_id: string, body: TestStep) {
      const target = await targetInScope(caller, workflow_id);
      const hash = await workflows.definitionHash(caller, workflow_id, "draft");
      return testStep({ ...deps, childOf: starts.childOf }, target, await workflows.definition(hash), body);
    },

    /** Ends an execution that has not ended, and what it waits for; its running step is aborted. */
    async cancel(caller: Caller, id: string) {
      const execution = await inScope(caller, id);
      if (!(await stop(execution, CANCELLED))) {
        throw new AppError("conflict", "This execution has ended already.");
      }
      return get(caller, id);
    },

    /** Throws `unauthorized` for a caller without the token of the wait. */
    async recognise(id: string, tokens: string[]): Promise<void> {
      await waitFor(id, tokens);
    },

    /**
     * The call that a wait was for, from whoever was told its address. Throws `unauthorized` without its
     * token, `gone` when the run does not wait for it any more.
     */
    async callBack(id: string, tokens: string[], body: Json): Promise<{ success: true; message: string }> {
      const wait = await waitFor(id, tokens);
      if (!(await store.signal({ id, signal: JSON.stringify(body), at: clock.now() }))) {
        throw new AppError("gone", "This wait is over: it was called before, or its execution has ended.");
      }
      await runner.wake(wait.execution_id);
      return { success: true, message: "The execution goes on." };
    },

    /** Runs what was started. */
    job: runExecution({
      ...deps,
      definition: workflows.definition,
      links: createLinks({ ...deps, starts }),
      afterFailure: starts.nextRun,
      cancelWaitedFor,
      ended: waiters.ended,
      changed: (id) => waiters.ended(following(id)),
    }),
  };
}

const CANCELLED = { code: "CANCELLED", message: "The execution was cancelled.", node: null };
const NOT_WAITED_FOR = {
  code: "CANCELLED",
  message: "The execution that waited for this one has ended.",
  node: null,
};
