import type { NewEvent } from "../events/service.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { redact } from "../lib/redact.ts";
import { renderDeep, TemplateError } from "../lib/template.ts";
import { nodeType } from "../nodes/index.ts";
import { NodeError, type NodeServices, type NodeType } from "../nodes/node.ts";
import type { Node } from "../workflows/schema.ts";
import { isTruthy, retryDelay, retryPolicy, type StepOptions, splitOptions } from "./options.ts";
import type { ExecutionError } from "./schema.ts";
import type { ExecutionRow, Spent, StepRow } from "./store.ts";

export type Program = { nodes: Node[]; output_mapping: JsonObject };

export type Outcome =
  | { kind: "success"; output: Json }
  | { kind: "failed"; error: ExecutionError }
  | { kind: "suspended"; at: number; reason: string }
  /** The job was taken away under way: cancelled, or held by someone else by now. */
  | { kind: "lost" };

/** Where steps go. Both answer false when the run does not hold its job any more. */
export type Journal = {
  /** A step with an effect is about to happen. */
  mark(step: StepRow, durable: boolean): Promise<boolean>;
  /** What was done so far must be on disk before the run goes on. */
  checkpoint(steps: StepRow[], spent: Spent): Promise<boolean>;
};

export type Run = {
  execution: ExecutionRow & { started_at: number };
  program: Program;
  input: JsonObject;
  /** Stored steps of an earlier life, by position. */
  done: Map<string, StepRow>;
  journal: Journal;
  services: NodeServices;
  clock: Clock;
  /** Made when first asked for: a run that leaves this program nowhere needs none. */
  signal(): AbortSignal;
  isAborted(): boolean;
  /** Told of failures that are Errand's own fault; the step shows no more than that. */
  report(error: unknown, step: StepRow): void;
  spent: Spent;
  /** Steps that no checkpoint has stored yet; the caller stores them with the outcome. */
  unsaved: StepRow[];
  /** Of every output so far, those of an earlier life included. */
  outputCharacters: number;
  /** Events that no commit has carried yet. */
  untold: NewEvent[];
};

const LARGEST_OUTPUT = 1024 * 1024;
// All outputs of a run together: a long chain of steps, each within its cap, must not fill memory and disk.
const LARGEST_RUN = 8 * 1024 * 1024;
// A run gives way to everybody else after this long.
const LONGEST_TURN_MS = 5;

/**
 * Runs a workflow's nodes in order from wherever the stored steps end.
 *
 * - A step that is stored as ended is not run again; its output goes on as it was.
 * - Consecutive nodes without an effect share a checkpoint: repeating them after a crash harms nobody.
 * - A node with an effect is marked before and stored after, before anything else happens. One that was
 *   under way when the program died is run again with the same idempotency key, or fails, as its
 *   `on_unknown` says.
 * - A failed attempt that may be retried suspends the run: the wait is a row, not a timer.
 */
export async function interpret(run: Run): Promise<Outcome> {
  const scope = firstScope(run);
  let last: Json = null;
  const { nodes } = run.program;
  let turn = performance.now();
  for (let index = 0; index < nodes.length; index++) {
    const node = nodes[index]!;
    if (run.isAborted()) return { kind: "lost" };
    const ended = await runNode(run, node, String(index), index, scope);
    if (ended.kind !== "value") return ended;
    last = ended.value;
    remember(scope, node, ended.value);
    if (performance.now() - turn > LONGEST_TURN_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      turn = performance.now();
    }
    const isLast = index === nodes.length - 1;
    if (ended.hadEffect && !isLast && !(await saveProgress(run))) return { kind: "lost" };
  }
  if (Object.keys(run.program.output_mapping).length === 0) return { kind: "success", output: last };
  try {
    return { kind: "success", output: renderDeep(run.program.output_mapping, scope) };
  } catch (error) {
    return { kind: "failed", error: { ...toError(error), node: null } };
  }
}

type Scope = Record<string, Json>;
type Ended = { kind: "value"; value: Json; hadEffect: boolean } | Exclude<Outcome, { kind: "success" }>;

function firstScope({ execution, input }: Run): Scope {
  return {
    ...input,
    inputs: input,
    vars: {},
    run: {
      id: execution.id,
      workflow_id: execution.workflow_id,
      started_at: iso(execution.started_at),
    },
    event: { source: execution.source, metadata: JSON.parse(execution.metadata) },
  };
}

function remember(scope: Scope, node: Node, value: Json): void {
  scope[node.name] = value;
  if (node.node_type_name !== "set_variables" || !isObject(value)) return;
  const vars = scope["vars"] as JsonObject;
  // Defined, not assigned: a value may have come from elsewhere with a `__proto__` of its own.
  for (const [name, held] of Object.entries(value)) {
    Object.defineProperty(vars, name, { value: held, enumerable: true, writable: true, configurable: true });
  }
}

async function saveProgress(run: Run): Promise<boolean> {
  const steps = run.unsaved.splice(0);
  return run.journal.checkpoint(steps, run.spent);
}

async function runNode(run: Run, node: Node, position: string, seq: number, scope: Scope): Promise<Ended> {
  const before = run.done.get(position);
  if (before && (before.state === "success" || before.state === "skipped" || before.state === "failed")) {
    return {
      kind: "value",
      value: before.output === null ? null : JSON.parse(before.output),
      hadEffect: false,
    };
  }
  const { options, config } = splitOptions(node.input_config);
  const type = nodeType(node.node_type_name);
  const step: StepRow = {
    execution_id: run.execution.id,
    position,
    seq,
    name: node.name,
    node_type_name: node.node_type_name,
    state: "started",
    attempts: before?.attempts ?? 0,
    input: null,
    output: null,
    error: null,
    started_at: before?.started_at ?? run.clock.now(),
    ended_at: null,
  };
  try {
    if (!type)
      throw new NodeError("UNKNOWN_NODE_TYPE", `This Errand has no node type ${node.node_type_name}.`);
    if (options.run_if !== undefined && !isTruthy(renderDeep(options.run_if, scope))) {
      return end(run, step, "skipped", null, false);
    }
    if (options.pinned_output !== undefined) return end(run, step, "success", options.pinned_output, false);
    const input = renderDeep(config, scope);
    // What is shown of a step is read by more people than may know its credentials.
    step.input = JSON.stringify(type.effect === "none" ? input : redact(input));
    step.attempts++;
    if (type.effect !== "none") {
      if (before?.state === "started" && options.on_unknown === "fail") {
        throw new NodeError(
          "UNKNOWN_OUTCOME",
          "Errand stopped while this step ran; it may or may not have happened.",
        );
      }
      if (!(await run.journal.mark({ ...step }, options.on_unknown === "fail"))) return { kind: "lost" };
    }
    const output = await callNode(run, type, input, position, options);
    const value = node.output_mapping
      ? renderDeep(node.output_mapping as JsonObject, { ...scope, output })
      : output;
    return end(run, step, "success", value, type.effect !== "none");
  } catch (error) {
    if (run.isAborted()) return { kind: "lost" };
    return failStep(run, step, options, type, error);
  }
}

async function callNode(
  run: Run,
  type: NodeType,
  input: Json,
  position: string,
  options: StepOptions,
): Promise<Json> {
  const seconds = options.timeout_seconds;
  const limit = seconds ? new AbortController() : undefined;
  const disarm = seconds && limit ? run.clock.after(seconds * 1_000, () => limit.abort()) : undefined;
  try {
    const { execution, services } = run;
    const result = await type.run(input as never, {
      ...services,
      get signal() {
        return limit ? AbortSignal.any([run.signal(), limit.signal]) : run.signal();
      },
      hop: execution.hop,
      idempotencyKey: `${execution.id}/${position}`,
      scope: { workspace_id: execution.workspace_id, project_id: execution.project_id },
    });
    run.spent.tokens += result.tokens ?? 0;
    run.spent.external_calls += result.external_calls ?? 0;
    return result.output;
  } catch (error) {
    if (limit?.signal.aborted) {
      throw new NodeError("TIMEOUT", `The step did not end within ${seconds} s.`, { retryable: true });
    }
    throw error;
  } finally {
    disarm?.();
  }
}

function end(run: Run, step: StepRow, state: "success" | "skipped", value: Json, hadEffect: boolean): Ended {
  const output = JSON.stringify(value ?? null);
  if (output.length > LARGEST_OUTPUT) {
    throw new NodeError("OUTPUT_TOO_LARGE", `The step's output is over ${LARGEST_OUTPUT / 1024} KiB.`);
  }
  run.outputCharacters += output.length;
  if (run.outputCharacters > LARGEST_RUN) {
    throw new NodeError("RUN_TOO_LARGE", `The outputs of this run are over ${LARGEST_RUN / 1024 ** 2} MiB.`);
  }
  run.unsaved.push({ ...step, state, output, ended_at: run.clock.now() });
  if (state === "success") run.spent.steps_completed++;
  return { kind: "value", value: value ?? null, hadEffect };
}

function failStep(
  run: Run,
  step: StepRow,
  options: StepOptions,
  type: NodeType | undefined,
  cause: unknown,
): Ended {
  const error = { ...toError(cause), node: step.name };
  if (error.code === "INTERNAL") run.report(cause, step);
  const retry = retryPolicy(options, type?.retries);
  const now = run.clock.now();
  if (cause instanceof NodeError && cause.retryable && step.attempts < retry.max_attempts) {
    run.unsaved.push({ ...step, state: "retrying", error: JSON.stringify(error) });
    return { kind: "suspended", at: now + retryDelay(retry, step.attempts), reason: error.message };
  }
  const value: Json =
    options.on_error === "default"
      ? (options.default_output ?? null)
      : options.on_error === "continue"
        ? { error: { code: error.code, message: error.message } }
        : null;
  const failed: StepRow = { ...step, state: "failed", error: JSON.stringify(error), ended_at: now };
  run.unsaved.push({ ...failed, output: value === null ? null : JSON.stringify(value) });
  if (options.on_error === "continue" || options.on_error === "default") {
    return { kind: "value", value, hadEffect: true };
  }
  return { kind: "failed", error };
}

function toError(error: unknown): { code: string; message: string } {
  if (error instanceof NodeError) return { code: error.code, message: error.message };
  if (error instanceof TemplateError) return { code: "TEMPLATE", message: error.message };
  return { code: "INTERNAL", message: "The step failed for a reason of Errand's own; the log has it." };
}
