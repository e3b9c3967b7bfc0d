import { type Clock, realTime } from "../lib/clock.ts";
import { invalid, invalidField } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { NodeServices } from "../nodes/node.ts";
import { completeProgram } from "../workflows/defaults.ts";
import type { Node } from "../workflows/schema.ts";
import type { Definition, WorkflowTarget } from "../workflows/service.ts";
import { listsOf, programFaults } from "../workflows/validate.ts";
import { interpret } from "./interpreter.ts";
import { newRun } from "./new-run.ts";
import { presentSteps } from "./present.ts";
import type { Callback, Links, Program } from "./run.ts";
import type { TestStep } from "./schema.ts";
import { newExecution, type Starts } from "./start.ts";
import type { ExecutionRow, StepRow } from "./store.ts";

const LONGEST_MS = 60_000;

/**
 * Runs one node alone, with the input and the earlier nodes' outputs that are given, and answers what it
 * did. Nothing is stored, the node itself has one attempt, and nothing is waited for: what has a time is taken
 * as come, a caller as having called with `callback_body`. What the node does elsewhere does happen.
 */
export async function testStep(
  deps: TrialDeps,
  target: WorkflowTarget,
  definition: Definition,
  { node: asked, input_data = {}, outputs = {}, callback_body = null }: TestStep,
) {
  const node = typeof asked === "string" ? find(definition.nodes, asked) : checked(asked as Node);
  if (!node)
    throw invalidField("node", "a node, or the name of one of the workflow", String(asked).slice(0, 100));
  const { clock } = deps;
  const input = input_data as JsonObject;
  const execution = newExecution(target, { input, source: "test", metadata: {}, hop: 0 }, clock.now());
  const limit = new AbortController();
  const disarm = realTime(clock).after(LONGEST_MS, () => limit.abort());
  try {
    const { outcome, steps, spent } = await tryOut(
      { ...deps, signal: limit.signal, callback_body: callback_body as Json },
      { execution, program: { nodes: [once(node)], output_mapping: {} }, input },
      outputs as JsonObject,
    );
    const error = outcome.kind === "success" ? null : outcome.error;
    const first = steps.find((step) => step.position === "0");
    return {
      status: error ? "failed" : (first?.status ?? "failed"),
      input: first?.input ?? null,
      output: outcome.kind === "success" ? outcome.output : null,
      error: error && { ...error, node: error.node ?? node.name },
      duration_seconds: (clock.now() - execution.created_at) / 1_000,
      tokens: spent.tokens,
      external_calls: spent.external_calls,
      steps,
    };
  } finally {
    disarm();
  }
}

type TrialDeps = {
  services: NodeServices;
  clock: Clock;
  report(message: string, fields: Record<string, unknown>): void;
  /** What a step that calls another workflow wants to run: see `createStarts`. */
  childOf: Starts["childOf"];
  baseUrl(): string;
};

type Means = TrialDeps & { signal: AbortSignal; callback_body: Json };

/** Runs a program that is not stored, over all that it would wait for, to its end. */
async function tryOut(
  means: Means,
  of: { execution: ExecutionRow; program: Program; input: JsonObject },
  given?: JsonObject,
) {
  const { signal, clock } = means;
  let skipped = 0;
  const shifted: Clock = {
    now: () => clock.now() + skipped,
    after: clock.after,
    real: realTime(clock),
  };
  const execution = { ...of.execution, started_at: of.execution.created_at };
  const stored = new Map<string, StepRow>();
  const keep = (steps: StepRow[]) => {
    for (const step of steps) stored.set(step.position, step);
    return true;
  };
  const links = linksOf(means, execution);
  for (;;) {
    const run = newRun(
      {
        ...means,
        clock: shifted,
        journal: { mark: async () => true, checkpoint: async (steps) => keep(steps) },
        links,
        signal: () => signal,
        isAborted: () => signal.aborted,
      },
      { ...of, execution, steps: [...stored.values()] },
    );
    run.given = given;
    const outcome = await interpret(run);
    keep(run.unsaved);
    Object.assign(execution, run.spent);
    if (outcome.kind === "suspended" && !signal.aborted) {
      skipped += Math.max(0, outcome.at - shifted.now());
      continue;
    }
    const steps = presentSteps([...stored.values()]);
    const ended = outcome.kind === "success" || outcome.kind === "failed" ? outcome : TOO_LONG;
    return { outcome: ended, steps, spent: run.spent };
  }
}

const TOO_LONG = {
  kind: "failed" as const,
  error: { code: "TIMEOUT", message: `The step did not end within ${LONGEST_MS / 1_000} s.`, node: null },
};

/** Other workflows run here and now; a caller has called before it was told where. */
function linksOf(means: Means, parent: ExecutionRow): Links {
  const children = new Map<string, ExecutionRow>();
  const callback = async (): Promise<Callback> => {
    const id = newId();
    return {
      id,
      url: `${means.baseUrl()}/webhooks/waits/${id}?token=test`,
      signal: { body: means.callback_body },
    };
  };
  return {
    async call(asked) {
      const { payload } = await means.childOf(parent, asked);
      const { execution, definition: program, input } = payload;
      const { outcome } = await tryOut(means, { execution, program, input });
      const child: ExecutionRow = {
        ...execution,
        state: outcome.kind,
        output: outcome.kind === "success" ? JSON.stringify(outcome.output) : null,
        error: outcome.kind === "failed" ? JSON.stringify(outcome.error) : null,
        ended_at: means.clock.now(),
      };
      children.set(asked.key, child);
      return child;
    },
    child: async (key) => children.get(key),
    openWait: callback,
    callback,
  };
}

function checked(node: Node): Node {
  const program = completeProgram({ input_schema: {}, nodes: [node], output_mapping: {} });
  const faults = programFaults(program);
  if (faults.length > 0) {
    throw invalid(faults.map((fault) => ({ ...fault, field: fault.field.replace(/^nodes\.0/, "node") })));
  }
  return program.nodes[0]!;
}

function find(nodes: Node[], name: string): Node | undefined {
  for (const node of nodes) {
    const found =
      node.name === name
        ? node
        : find(
            listsOf(node).flatMap((list) => list.nodes),
            name,
          );
    if (found) return found;
  }
  return undefined;
}

const once = (node: Node): Node => {
  const options = node.input_config["_options"] as JsonObject | undefined;
  const _options: Record<string, Json> = { ...options, retry: { max_attempts: 1 } };
  return { ...node, input_config: { ...node.input_config, _options } };
};
