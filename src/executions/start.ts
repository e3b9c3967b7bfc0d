import { withOutbox, withPlacements } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { StartContext } from "../hooks/idempotency.ts";
import type { Runner } from "../jobs/runner.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { conflict, type Fault, invalid, invalidField } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { TemplateError } from "../lib/template.ts";
import { NodeError, type NodeServices } from "../nodes/node.ts";
import type { WorkflowSettings } from "../workflows/schema.ts";
import type { Definition, WorkflowTarget } from "../workflows/service.ts";
import { isQuick, runAtOnce } from "./at-once.ts";
import type { conclude } from "./conclude.ts";
import { concurrencyKey, runsAtOnce } from "./concurrency.ts";
import { startedEvent } from "./events.ts";
import type { NextRun, RunPayload } from "./jobs.ts";
import type { CallRequest } from "./run.ts";
import type { ExecutionError } from "./schema.ts";
import type { ExecutionRow, ExecutionStore, StepRow } from "./store.ts";

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

/** `follow`: the execution is to be streamed in place of the body. */
export type StartAnswer = { status: number; body: JsonObject; replayed: boolean; follow?: string };

export type StartDeps = {
  store: ExecutionStore;
  events: Events;
  runner: Runner;
  clock: Clock;
  services: NodeServices;
  report(message: string, fields: Record<string, unknown>): void;
  workflows: {
    target(id: string): Promise<WorkflowTarget | undefined>;
    definition(hash: string): Promise<Definition>;
  };
};

export type Starts = ReturnType<typeof createStarts>;

const USUAL_RUN_MS = 1_000;
/** How deep workflows may call each other; a cycle of calls ends here. */
const MOST_DEPTH = 8;
const NO_CLAIM: Claim = undefined;

type Claim = Parameters<ExecutionStore["accept"]>[0]["idempotency"];
type Accepted = Awaited<ReturnType<ExecutionStore["accept"]>>;
type Ended = ReturnType<typeof conclude>;

/** What starts an execution: a request, a step of another, the failure of another, another try of one. */
export function createStarts(deps: StartDeps) {
  const { store, runner, clock, workflows } = deps;

  /**
   * Accepts one run, durably: execution, job, events and idempotency claim are one commit.
   * Throws `invalid_input` when the input does not fit the workflow's input_schema, `conflict` when the
   * idempotency key was used with another request.
   */
  async function start(target: WorkflowTarget, request: StartRequest): Promise<StartAnswer> {
    const definition = await workflows.definition(target.definition_hash);
    refuse(definition.checkInput(request.input));
    const execution = newExecution(target, request, clock.now());
    const usual = target.num_runs > 0 ? target.run_ms_total / target.num_runs : USUAL_RUN_MS;
    const rounds = isQuick(definition, execution) ? 0 : await roundsBefore(target, request.input);
    const answer = request.answer({
      execution_id: execution.id,
      estimated_completion: iso(execution.created_at + usual * (1 + rounds)),
    });
    const idempotency = request.idempotency && {
      ...request.idempotency,
      status: answer.status,
      response: JSON.stringify(answer.body),
    };
    const payload = { execution, definition, input: request.input };
    const { accepted } = await accept(payload, target.settings, idempotency);
    if (accepted.outcome === "new") return { ...answer, replayed: false };
    if (accepted.outcome === "replay") {
      return { status: accepted.status, body: JSON.parse(accepted.response), replayed: true };
    }
    throw conflict("This Idempotency-Key was used with another request.");
  }

  /** How often as many runs as may be under way at once have to end before one that is started now begins. */
  async function roundsBefore({ id, settings }: WorkflowTarget, input: JsonObject): Promise<number> {
    const key = keyOf(id, settings.concurrency, input);
    return (await runner.lineOf("execution.run", key)) / runsAtOnce(key);
  }

  /** What a step of `parent` wants to run. Throws NodeError for what no other try would help. */
  async function childOf(parent: ExecutionRow, { key, workflow_id, input, waits }: CallRequest) {
    const target = isUuid(workflow_id) ? await workflows.target(workflow_id) : undefined;
    if (target?.project_id !== parent.project_id) {
      throw new NodeError("WORKFLOW_NOT_FOUND", "There is no such workflow in this project.");
    }
    if (parent.depth >= MOST_DEPTH) {
      throw new NodeError(
        "TOO_DEEP",
        `Workflows may call each other ${MOST_DEPTH} deep; this may be a cycle.`,
      );
    }
    const definition = await workflows.definition(target.definition_hash);
    const fault = definition.checkInput(input)[0];
    if (fault) {
      const { field, expected, received } = fault;
      throw new NodeError(
        "INVALID_INPUT",
        `workflow_input${field ? `.${field}` : ""}: expected ${expected}, received ${received}`,
      );
    }
    const metadata = { parent_execution_id: parent.id };
    const execution: ExecutionRow = {
      ...newExecution(target, { input, source: "workflow", metadata, hop: parent.hop }, clock.now()),
      parent_id: parent.id,
      parent_position: key,
      parent_waits: waits ? 1 : 0,
      depth: parent.depth + 1,
    };
    return { target, payload: { execution, definition, input } };
  }

  /** The execution that a step of `parent` stands for, started now unless it was before. Throws as `childOf`. */
  async function startChild(parent: ExecutionRow, asked: CallRequest): Promise<ExecutionRow> {
    const { key } = asked;
    const known = await store.child(parent.id, key);
    if (known) return known;
    const { target, payload } = await childOf(parent, asked);
    const { execution } = payload;
    const { accepted, ended } = await accept(payload, target.settings, NO_CLAIM);
    if (accepted.outcome === "exists") return (await store.child(parent.id, key))!;
    return ended ? { ...execution, ...ended.end } : execution;
  }

  /** Quick programs are run before they are accepted, with everything in one commit; others get a job. */
  async function accept(payload: RunPayload, settings: WorkflowSettings, idempotency: Claim) {
    const { execution, definition } = payload;
    const begun = isQuick(definition, execution) ? runAtOnce(deps, payload) : undefined;
    const ended = begun instanceof Promise ? await begun : begun;
    const accepted = ended
      ? await acceptEnded(execution, ended, settings, idempotency)
      : await acceptJob(payload, settings, { idempotency });
    return { accepted, ended };
  }

  async function acceptEnded(
    execution: ExecutionRow,
    { end, events }: Ended,
    settings: WorkflowSettings,
    idempotency: Claim,
  ): Promise<Accepted> {
    const error = end.error === null ? undefined : (JSON.parse(end.error) as ExecutionError);
    const next = error && (await nextRun(execution, error, settings.failure_workflow_id));
    let accepted: Accepted = { outcome: "mismatch" };
    const commit = () =>
      withOutbox(deps, execution, events, execution.hop, async (outbox) => {
        accepted = await store.accept({ execution, end, next: next?.queued, outbox, idempotency });
        return accepted.outcome === "new";
      });
    await (next ? withPlacements(runner, [next.placement], commit) : commit());
    return accepted;
  }

  async function acceptJob(
    payload: RunPayload,
    { concurrency, run_timeout_seconds }: WorkflowSettings,
    more: { idempotency?: Claim; steps?: StepRow[] },
  ): Promise<Accepted> {
    const { execution, input } = payload;
    if (run_timeout_seconds !== null) {
      execution.deadline_at = execution.created_at + run_timeout_seconds * 1_000;
    }
    const key = keyOf(execution.workflow_id, concurrency, input);
    const size = execution.input.length;
    const job = { tenant: execution.workspace_id, key, ref: execution.id, size };
    // Where steps are there already the run reads them with everything else.
    const placement = runner.place("execution.run", job, more.steps ? undefined : payload);
    if (more.steps || placement.row.state === "ready")
      Object.assign(execution, { state: "queued", started_at: null });
    const started =
      execution.state === "running" ? [startedEvent(execution, input, execution.created_at)] : [];
    let accepted: Accepted = { outcome: "mismatch" };
    await withPlacements(runner, [placement], () =>
      withOutbox(deps, execution, started, execution.hop, async (outbox) => {
        accepted = await store.accept({ execution, job: placement.row, outbox, ...more });
        return accepted.outcome === "new";
      }),
    );
    return accepted;
  }

  /**
   * What a workflow's settings want to run when one of its executions has failed, to be stored with that
   * failure. What was itself started so is not followed by another: failures would go round for ever.
   */
  async function nextRun(
    failed: ExecutionRow,
    error: ExecutionError,
    named?: string | null,
  ): Promise<NextRun | undefined> {
    if (failed.source === FAILURE) return undefined;
    const id =
      named === undefined
        ? (await workflows.target(failed.workflow_id))?.settings.failure_workflow_id
        : named;
    const target = id ? await workflows.target(id) : undefined;
    if (target?.project_id !== failed.project_id) return undefined;
    const input: JsonObject = {
      execution_id: failed.id,
      workflow_id: failed.workflow_id,
      error: error as unknown as Json,
      input_data: JSON.parse(failed.input) as Json,
    };
    const definition = await workflows.definition(target.definition_hash);
    const fault = definition.checkInput(input)[0];
    if (fault) {
      deps.report("a failure workflow does not take what it is told", {
        workflow_id: target.id,
        execution_id: failed.id,
        field: fault.field,
        expected: fault.expected,
      });
      return undefined;
    }
    const request = { input, source: FAILURE, metadata: {}, hop: failed.hop };
    const execution: ExecutionRow = {
      ...newExecution(target, request, clock.now()),
      state: "queued",
      started_at: null,
      parent_id: failed.id,
      parent_position: FAILURE,
      depth: failed.depth,
    };
    const placement = runner.place("execution.run", {
      tenant: failed.workspace_id,
      key: target.id,
      ref: execution.id,
    });
    return { queued: { execution, job: placement.row }, placement };
  }

  /** Another try of an execution: a new one with the same program, over steps that are done already or none. */
  async function again(
    origin: ExecutionRow,
    given: { input: JsonObject; source: string; steps: StepRow[]; idempotency?: StartContext["idempotency"] },
  ): Promise<{ id: string; replayed: boolean }> {
    const { input, source, idempotency } = given;
    const definition = await workflows.definition(origin.definition_hash);
    refuse(definition.checkInput(input));
    const target = await workflows.target(origin.workflow_id);
    if (!target) throw conflict("The workflow of this execution was deleted.");
    const metadata = JSON.parse(origin.metadata) as JsonObject;
    const execution: ExecutionRow = {
      ...newExecution(target, { input, source, metadata, hop: origin.hop }, clock.now()),
      definition_hash: origin.definition_hash,
      origin_id: origin.id,
    };
    const steps = given.steps.map((step) => ({ ...step, execution_id: execution.id }));
    execution.steps_completed = steps.filter((step) => step.state === "success").length;
    const claim = idempotency && {
      ...idempotency,
      status: 202,
      response: JSON.stringify({ execution_id: execution.id }),
    };
    const accepted = await acceptJob({ execution, definition, input }, target.settings, {
      idempotency: claim,
      steps,
    });
    if (accepted.outcome === "replay") {
      return { id: String(JSON.parse(accepted.response).execution_id), replayed: true };
    }
    if (accepted.outcome === "new") return { id: execution.id, replayed: false };
    throw conflict("This Idempotency-Key was used with another request.");
  }

  return { start, childOf, startChild, nextRun, again };
}

const FAILURE = "failure";

export const newExecution = (
  target: WorkflowTarget,
  request: { input: JsonObject; source: string; metadata: JsonObject; hop: number },
  now: number,
): ExecutionRow => ({
  id: newId(),
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
  parent_id: null,
  parent_position: null,
  parent_waits: 0,
  depth: 0,
  origin_id: null,
  deadline_at: null,
  response: null,
});

function refuse(faults: Fault[]): void {
  if (faults.length === 0) return;
  const inInput = (field: string): string => (field ? `input_data.${field}` : "input_data");
  throw invalid(faults.map((fault) => ({ ...fault, field: inInput(fault.field) })));
}

function keyOf(id: string, concurrency: WorkflowSettings["concurrency"], input: JsonObject): string {
  try {
    return concurrencyKey(id, concurrency, input);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    throw invalidField("input_data", "what the concurrency key of the workflow names", error.message);
  }
}
