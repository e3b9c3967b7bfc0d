import { iso, realTime } from "../lib/clock.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { redact } from "../lib/redact.ts";
import { renderDeep } from "../lib/template.ts";
import { nodeType } from "../nodes/index.ts";
import { NodeError, type NodeResult, type NodeType, type NodeWait } from "../nodes/node.ts";
import { holds } from "../nodes/when.ts";
import type { Node } from "../workflows/schema.ts";
import { type Around, failStep, goOnAfterFailure, toError } from "./failure.ts";
import { branchNodes, runFlow } from "./flow.ts";
import { type StepOptions, splitOptions } from "./options.ts";
import {
  CUT,
  countStep,
  type Ended,
  endStep,
  keepInput,
  LOST,
  type Outcome,
  type Place,
  type Run,
  RunLimit,
  record,
  type Scope,
  saveProgress,
  stepOf,
  takeAround,
} from "./run.ts";
import type { StepRow } from "./store.ts";

// A run gives way to everybody else after this long.
const LONGEST_TURN_MS = 5;
// Steps without an effect share a checkpoint, but for this many: a long loop must not hold them all.
const MOST_UNSAVED = 256;

/**
 * Runs a workflow's nodes in order from wherever the stored steps end.
 *
 * - A step that is stored as ended is not run again; its output goes on as it was.
 * - Consecutive nodes without an effect share a checkpoint: repeating them after a crash harms nobody. So those
 *   in front of a call that is under way, or in a branch beside it, may be on no disk until it has ended.
 * - A node with an effect is marked before and stored after, before anything else happens. One that was
 *   under way when the program died is run again with the same idempotency key, or fails, as its
 *   `on_unknown` says.
 * - What waits (a retry, a wait, another workflow) suspends the run: the wait is a row, not a timer. Lists
 *   inside of a node are gone through again from their beginning, over what is stored of them.
 *
 * Answers at once where every node did, without a promise: most runs of most programs are that short.
 */
export function interpret(run: Run): Outcome | Promise<Outcome> {
  const scope = firstScope(run);
  const deadline = run.execution.deadline_at ?? undefined;
  const ended = runList(run, run.program.nodes, { prefix: "", scope, deadline });
  const outcome = (ended: Ended) => outcomeOf(run, ended, scope, deadline);
  return ended instanceof Promise ? ended.then(outcome) : outcome(ended);
}

function outcomeOf(run: Run, ended: Ended, scope: Scope, deadline: number | undefined): Outcome {
  switch (ended.kind) {
    case "value":
      return mapOutput(run, ended.value, scope);
    case "stopped":
      return ended.outcome;
    case "suspended":
      return { ...ended, at: Math.min(ended.at, deadline ?? ended.at) };
    case "expired": {
      const message = "The run did not end within its time limit.";
      return { kind: "failed", error: { code: "RUN_TIMEOUT", message, node: null } };
    }
    case "cut":
      return { kind: "lost" };
    default:
      return ended;
  }
}

function mapOutput(run: Run, last: Json, scope: Scope): Outcome {
  if (Object.keys(run.program.output_mapping).length === 0) return { kind: "success", output: last };
  try {
    return { kind: "success", output: renderDeep(run.program.output_mapping, scope) };
  } catch (error) {
    return { kind: "failed", error: { ...toError(error), node: null } };
  }
}

function firstScope({ execution, input, given }: Run): Scope {
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
    ...given,
  };
}

/**
 * Runs a list of nodes to its end; the value is the last node's. The workflow's own answers at once where every node
 * did; one inside of a node has others beside it, and they take turns node by node.
 */
function runList(run: Run, nodes: Node[], place: Place): Ended | Promise<Ended> {
  let last: Json = null;
  for (let index = 0; index < nodes.length; index++) {
    const ended = begin(run, nodes[index]!, index, place);
    if (ended instanceof Promise || place.prefix !== "" || isLong(run))
      return runRest(run, nodes, place, { index, ended });
    if (ended.kind !== "value") return ended;
    last = ended.value;
    remember(place.scope, nodes[index]!, ended.value);
  }
  return { kind: "value", value: last, mustSave: false };
}

/** The same from a node on that has begun. */
async function runRest(
  run: Run,
  nodes: Node[],
  place: Place,
  begun: { index: number; ended: Ended | Promise<Ended> },
): Promise<Ended> {
  let last: Json = null;
  for (let { index } = begun; index < nodes.length; index++) {
    const node = nodes[index]!;
    const ended = await (index === begun.index ? begun.ended : begin(run, node, index, place));
    if (ended.kind !== "value") return ended;
    last = ended.value;
    remember(place.scope, node, ended.value);
    if (performance.now() - run.turn > LONGEST_TURN_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      run.turn = performance.now();
    }
    const isLast = place.prefix === "" && index === nodes.length - 1;
    const mustSave = (ended.mustSave && !isLast) || run.unsaved.length >= MOST_UNSAVED;
    // Before it is accepted a run is all in memory: it is stored whole, or run again.
    if (mustSave && run.links && !(await saveProgress(run))) return LOST;
  }
  return { kind: "value", value: last, mustSave: false };
}

/** Others are to have their turn, or what was done is to be stored. */
const isLong = ({ turn, unsaved }: Run): boolean =>
  performance.now() - turn > LONGEST_TURN_MS || unsaved.length >= MOST_UNSAVED;

function begin(run: Run, node: Node, index: number, place: Place): Ended | Promise<Ended> {
  if (run.isAborted()) return LOST;
  if (place.signal?.aborted) return CUT;
  if (place.deadline !== undefined && run.clock.now() >= place.deadline) return { kind: "expired" };
  const position = `${place.prefix}${index}`;
  return runNow(run, node, position, place) ?? runNode(run, node, position, place);
}

/** Variables that a condition's nodes set count for what follows it, also in a life that does not run them. */
function recallVariables(run: Run, node: Node, position: string, scope: Scope): void {
  const { input } = run.done.get(position)!;
  const branch = input === null ? null : (JSON.parse(input) as { branch: string | null }).branch;
  if (branch === null) return;
  for (const [index, each] of branchNodes(node.input_config as Record<string, Json>, branch).entries()) {
    const at = `${position}.${branch}.${index}`;
    const step = run.done.get(at);
    if (step?.state !== "success" && step?.state !== "failed") continue;
    if (each.node_type_name === "condition") recallVariables(run, each, at, scope);
    else if (step.output !== null) setVariables(scope, each, JSON.parse(step.output));
  }
}

function remember(scope: Scope, node: Node, value: Json): void {
  scope[node.name] = value;
  setVariables(scope, node, value);
}

function setVariables(scope: Scope, node: Node, value: Json): void {
  if (node.node_type_name !== "set_variables" || !isObject(value)) return;
  const vars = scope["vars"] as JsonObject;
  for (const name of Object.keys(value)) {
    const held = value[name]!;
    if (name !== "__proto__") vars[name] = held;
    // A value may have come from elsewhere with one of its own: assigned, it would be the prototype.
    else
      Object.defineProperty(vars, name, {
        value: held,
        enumerable: true,
        writable: true,
        configurable: true,
      });
  }
}

/**
 * Most nodes of most programs: new in this run, with nothing set beside their configuration, and done on the spot.
 * They go without the promises that all others need; undefined: it is one of the others.
 */
function runNow(run: Run, node: Node, position: string, place: Place): Ended | Promise<Ended> | undefined {
  const type = nodeType(node.node_type_name);
  if (!type?.now) return undefined;
  const { config, options, isBare } = splitOptions(node.input_config);
  if (!isBare || run.done.has(position)) return undefined;
  const step = stepOf(run, node, position);
  try {
    countStep(run);
    const input = renderDeep(config, place.scope);
    keepInput(run, step, input);
    step.attempts++;
    return endWith(run, node, step, place, type.now(input as never), false);
  } catch (error) {
    return endAfter({ run, place, options, runList }, step, type, error);
  }
}

/** From here to the end of the step nothing is waited for: what was spent and the step are stored together. */
function endWith(
  run: Run,
  node: Node,
  step: StepRow,
  { scope }: Place,
  result: NodeResult,
  mustSave: boolean,
): Ended {
  run.spent.tokens += result.tokens ?? 0;
  run.spent.external_calls += result.external_calls ?? 0;
  const value = node.output_mapping
    ? renderDeep(node.output_mapping as JsonObject, { ...scope, output: result.output })
    : result.output;
  return endStep(run, step, "success", value, mustSave);
}

/** What a step comes to that threw. */
function endAfter(
  around: Around,
  step: StepRow,
  type: NodeType | undefined,
  error: unknown,
): Ended | Promise<Ended> {
  const { run, place } = around;
  if (run.isAborted()) return LOST;
  if (place.signal?.aborted) return CUT;
  if (error instanceof Expired) return { kind: "expired" };
  if (error instanceof RunLimit) return giveUp(run, step, error);
  return failStep(around, step, type, error);
}

async function runNode(run: Run, node: Node, position: string, place: Place): Promise<Ended> {
  const before = run.done.get(position);
  if (before && (before.state === "success" || before.state === "skipped")) {
    if (node.node_type_name === "condition") recallVariables(run, node, position, place.scope);
    const value = before.output === null ? null : JSON.parse(before.output);
    return { kind: "value", value, mustSave: false };
  }
  const split = splitOptions(node.input_config);
  const { options } = split;
  let { config } = split;
  const around = { run, place, options, runList };
  if (before?.state === "failed") {
    if (node.node_type_name === "condition") recallVariables(run, node, position, place.scope);
    return goOnAfterFailure(around, before);
  }
  if (before?.state === "retrying" && (before.wake_at ?? 0) > run.clock.now()) {
    return { kind: "suspended", at: before.wake_at!, reason: "a later attempt" };
  }
  const type = nodeType(node.node_type_name);
  // It may stand beside the configuration or in it; a workflow that was saved has one of them.
  if (node.connection && type?.connections && config["connection"] == null) {
    config = { ...config, connection: node.connection };
  }
  const step = stepOf(run, node, position, before);
  try {
    if (!before) countStep(run);
    if (!type)
      throw new NodeError("UNKNOWN_NODE_TYPE", `This Errand has no node type ${node.node_type_name}.`);
    const isNew = !before || before.state === "retrying";
    if (isNew && options.run_if !== undefined && !holds(options.run_if, place.scope)) {
      return endStep(run, step, "skipped", null, false);
    }
    if (options.pinned_output !== undefined) {
      return endStep(run, step, "success", options.pinned_output, false);
    }
    if (type.flow) {
      if (isNew) step.attempts++;
      return await runFlow({ ...around, node, type, step, before, config });
    }
    const input = renderDeep(config, place.scope);
    const waited = before?.state === "waiting" ? before : undefined;
    if (waited) refuseLate(run, step, options);
    else {
      // What is shown of a step is read by more people than may know its credentials.
      keepInput(run, step, type.effect === "none" ? input : redact(input));
      step.attempts++;
    }
    if (type.effect !== "none" && !waited) {
      if (before?.state === "started" && options.on_unknown === "fail") {
        throw new NodeError(
          "UNKNOWN_OUTCOME",
          "Errand stopped while this step ran; it may or may not have happened.",
        );
      }
      const mark = { ...step, rev: run.rev++ };
      run.hasLoose ||= position.includes(".");
      if (!(await run.journal.mark(mark, takeAround(run), options.on_unknown === "fail"))) return LOST;
    }
    const result = await callNode(run, type, input, { position, place, options, waited });
    if ("waits" in result) return putDown(run, step, result.waits, options);
    return endWith(run, node, step, place, result, type.effect !== "none");
  } catch (error) {
    return await endAfter(around, step, type, error);
  }
}

function giveUp(run: Run, step: StepRow, { code, message }: RunLimit): Ended {
  const error = { code, message, node: step.name };
  record(run, { ...step, state: "failed", error: JSON.stringify(error), ended_at: run.clock.now() });
  return { kind: "stopped", outcome: { kind: "failed", error } };
}

// Whoever is waited for wakes the run; this is for what nobody tells of, a record that was deleted, say.
const LOOK_AGAIN_MS = 3_600_000;

/** A node that waits holds nothing meanwhile: what it waits for is on record, and so is its step. */
function putDown(run: Run, step: StepRow, waits: JsonObject, options: StepOptions): Ended {
  const at = Math.min(run.clock.now() + LOOK_AGAIN_MS, deadlineOf(step, options));
  record(run, { ...step, state: "waiting", output: JSON.stringify(waits), wake_at: at });
  run.hasLoose = true;
  return { kind: "suspended", at, reason: `an answer to ${step.name}` };
}

const deadlineOf = ({ started_at }: StepRow, { timeout_seconds }: StepOptions): number =>
  timeout_seconds === undefined ? Number.POSITIVE_INFINITY : started_at + timeout_seconds * 1_000;

/** A step that waited has its time limit from its beginning. */
function refuseLate(run: Run, step: StepRow, options: StepOptions): void {
  if (run.clock.now() >= deadlineOf(step, options)) throw tooLate(options);
}

const tooLate = ({ timeout_seconds }: StepOptions): NodeError =>
  new NodeError("TIMEOUT", `The step did not end within ${timeout_seconds} s.`, { retryable: true });

class Expired extends Error {}

async function callNode(
  run: Run,
  type: NodeType,
  input: Json,
  {
    position,
    place,
    options,
    waited,
  }: { position: string; place: Place; options: StepOptions; waited: StepRow | undefined },
): Promise<NodeResult | NodeWait> {
  const { execution, services, clock } = run;
  const own = options.timeout_seconds === undefined ? undefined : options.timeout_seconds * 1_000;
  const left = place.deadline === undefined ? undefined : place.deadline - clock.now();
  const ms = own === undefined ? left : Math.min(own, left ?? own);
  const limit = ms === undefined ? undefined : new AbortController();
  const disarm = limit && realTime(clock).after(ms!, () => limit.abort());
  if (type.effect !== "none") run.elsewhere(1);
  try {
    const running = type.run(input as never, {
      ...services,
      get signal() {
        const others = [place.signal, limit?.signal].filter((signal) => signal !== undefined);
        return others.length === 0 ? run.signal() : AbortSignal.any([run.signal(), ...others]);
      },
      hop: execution.hop,
      idempotencyKey: `${execution.id}/${position}`,
      scope: { workspace_id: execution.workspace_id, project_id: execution.project_id },
      asked_by: run.links?.execution_id,
      waited: waited?.output ? JSON.parse(waited.output) : undefined,
    });
    // A node that does not listen to its signal must not hold the run past its time.
    return limit ? await Promise.race([running, rejected(limit.signal)]) : await running;
  } catch (error) {
    if (!limit?.signal.aborted) throw error;
    if (own === undefined || (left !== undefined && left <= own)) throw new Expired();
    throw tooLate(options);
  } finally {
    disarm?.();
    if (type.effect !== "none") run.elsewhere(-1);
  }
}

const rejected = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
