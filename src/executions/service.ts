import { withOutbox, withPlacements } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { StartContext } from "../hooks/idempotency.ts";
import type { ClaimOutcome } from "../hooks/store.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { AppError, conflict, forbidden, invalid, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NodeServices } from "../nodes/node.ts";
import type { Definition, WorkflowTarget } from "../workflows/service.ts";
import { isQuick, runAtOnce } from "./at-once.ts";
import type { conclude } from "./conclude.ts";
import { endedEvent, startedEvent } from "./events.ts";
import type { RunPayload } from "./jobs.ts";
import { presentExecution, presentStep } from "./present.ts";
import type { StartExecution } from "./schema.ts";
import type { ExecutionRow, ExecutionStore } from "./store.ts";
import type { Waiters } from "./waiters.ts";

export type StartRequest = {
  input: JsonObject;
  source: string;
  metadata: JsonObject;
  /** Made before the commit, so that a repeated request can be given the very same answer. */
  answer(started: { execution_id: string; estimated_completion: string }): {
    status: number;
    body: JsonObject;
  };
} & StartContext;

export type StartAnswer = { status: number; body: JsonObject; replayed: boolean };

export type Executions = ReturnType<typeof createExecutions>;

const USUAL_RUN_MS = 1_000;
const DEFAULT_WAIT_SECONDS = 30;

export function createExecutions(deps: {
  store: ExecutionStore;
  events: Events;
  runner: Runner;
  clock: Clock;
  waiters: Waiters;
  services: NodeServices;
  report(message: string, fields: Record<string, unknown>): void;
  workflows: {
    target(id: string): Promise<WorkflowTarget | undefined>;
    definition(hash: string): Promise<Definition>;
    definitionHash(caller: Caller, id: string, version: number | "draft"): Promise<string>;
  };
}) {
  const { store, runner, clock, waiters, workflows } = deps;

  /**
   * Accepts one run, durably: execution, job, events and idempotency claim are one commit.
   * Throws `invalid_input` when the input does not fit the workflow's input_schema, `conflict` when the
   * idempotency key was used with another request.
   */
  async function start(target: WorkflowTarget, request: StartRequest): Promise<StartAnswer> {
    const definition = await workflows.definition(target.definition_hash);
    const faults = definition.checkInput(request.input);
    if (faults.length > 0) throw invalid(faults.map((fault) => ({ ...fault, field: inInput(fault.field) })));

    const now = clock.now();
    const id = newId();
    const execution: ExecutionRow = {
      id,
      workflow_id: target.id,
      workspace_id: target.workspace_id,
      project_id: target.project_id,
      definition_hash: target.definition_hash,
      state: "running",
      source: request.source,
      metadata: JSON.stringify(request.metadata),
      input: JSON.stringify(request.input),
      output: null,
      error: null,
      hop: request.hop,
      external_calls: 0,
      tokens: 0,
      steps_completed: 0,
      created_at: now,
      started_at: now,
      ended_at: null,
    };
    const usual = target.num_runs > 0 ? target.run_ms_total / target.num_runs : USUAL_RUN_MS;
    const answer = request.answer({ execution_id: id, estimated_completion: iso(now + usual) });

    const idempotency = request.idempotency && {
      ...request.idempotency,
      status: answer.status,
      response: JSON.stringify(answer.body),
    };
    const quick = isQuick(definition, execution)
      ? await runAtOnce(deps, { execution, definition, input: request.input })
      : undefined;
    const accepted = quick
      ? await acceptEnded(execution, quick, idempotency)
      : await acceptJob({ execution, definition, input: request.input }, idempotency);
    if (accepted.outcome === "new") return { ...answer, replayed: false };
    if (accepted.outcome === "replay") {
      return { status: accepted.status, body: JSON.parse(accepted.response), replayed: true };
    }
    throw conflict("This Idempotency-Key was used with another request.");
  }

  type Claim = Parameters<ExecutionStore["accept"]>[0]["idempotency"];

  async function acceptEnded(
    execution: ExecutionRow,
    ended: ReturnType<typeof conclude>,
    idempotency: Claim,
  ) {
    let accepted: ClaimOutcome = { outcome: "mismatch" };
    await withOutbox(deps, execution, ended.events, execution.hop, async (outbox) => {
      accepted = await store.accept({ execution, end: ended.end, outbox, idempotency });
      return accepted.outcome === "new";
    });
    return accepted as ClaimOutcome;
  }

  async function acceptJob(payload: RunPayload, idempotency: Claim) {
    const { execution, input } = payload;
    const job = { tenant: execution.workspace_id, key: execution.workflow_id, ref: execution.id };
    const placement = runner.place("execution.run", job, payload);
    if (placement.row.state === "ready") Object.assign(execution, { state: "queued", started_at: null });
    const started =
      execution.state === "running" ? [startedEvent(execution, input, execution.created_at)] : [];
    let accepted: ClaimOutcome = { outcome: "mismatch" };
    await withPlacements(runner, [placement], () =>
      withOutbox(deps, execution, started, execution.hop, async (outbox) => {
        accepted = await store.accept({ execution, job: placement.row, outbox, idempotency });
        return accepted.outcome === "new";
      }),
    );
    return accepted as ClaimOutcome;
  }

  async function inScope(caller: Caller, id: string): Promise<ExecutionRow> {
    const execution = isUuid(id) ? await store.get(id) : undefined;
    if (!execution) throw notFound("execution", id);
    if (execution.project_id !== caller.project_id) throw forbidden("This key cannot reach that execution.");
    return execution;
  }

  async function targetInScope(caller: Caller, workflow_id: string): Promise<WorkflowTarget> {
    const target = isUuid(workflow_id) ? await workflows.target(workflow_id) : undefined;
    if (!target) throw notFound("workflow", workflow_id);
    if (target.project_id !== caller.project_id) throw forbidden("This key cannot reach that workflow.");
    return target;
  }

  async function get(caller: Caller, id: string) {
    const execution = await inScope(caller, id);
    return { ...presentExecution(execution), steps: (await store.steps(id)).map(presentStep) };
  }

  /**
   * Waits until an execution ends, at most `ms`, or `signal` aborts; then how it stands. Undefined: there is none.
   */
  async function wait(id: string, ms: number, signal?: AbortSignal): Promise<ExecutionRow | undefined> {
    const hasEnded = async () => {
      const state = (await store.get(id))?.state;
      return state !== "queued" && state !== "running" && state !== "waiting";
    };
    await waiters.wait(id, ms, hasEnded, signal);
    return store.get(id);
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
      if (body.response_type !== "result") return answer;
      const execution_id = String(answer.body["execution_id"]);
      await wait(execution_id, (body.timeout_seconds ?? DEFAULT_WAIT_SECONDS) * 1_000);
      const execution = await get(caller, execution_id);
      const hasEnded = execution.completed_at !== null;
      return {
        status: hasEnded ? 200 : 202,
        body: execution as unknown as JsonObject,
        replayed: answer.replayed,
      };
    },

    /** Ends an execution that has not ended; its running step is aborted. Conflict when it has. */
    async cancel(caller: Caller, id: string) {
      const execution = await inScope(caller, id);
      const at = clock.now();
      const error = { code: "CANCELLED", message: "The execution was cancelled.", node: null };
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
      if (!stopped) throw new AppError("conflict", "This execution has ended already.");
      runner.cancel(id);
      waiters.ended(id);
      return get(caller, id);
    },
  };
}

const inInput = (field: string): string => (field ? `input_data.${field}` : "input_data");
