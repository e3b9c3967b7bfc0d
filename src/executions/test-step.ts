import { type Clock, realTime } from "../lib/clock.ts";
import { invalid, invalidField } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { nodeType } from "../nodes/index.ts";
import type { NodeServices } from "../nodes/node.ts";
import { completeProgram } from "../workflows/defaults.ts";
import type { Node } from "../workflows/schema.ts";
import type { Definition, WorkflowTarget } from "../workflows/service.ts";
import { listsOf, programFaults } from "../workflows/validate.ts";
import { interpret } from "./interpreter.ts";
import { newRun } from "./new-run.ts";
import { presentSteps } from "./present.ts";
import type { TestStep } from "./schema.ts";
import { newExecution } from "./start.ts";

const LONGEST_MS = 60_000;

/**
 * Runs one node alone, with the input and the earlier nodes' outputs that are given, and answers what it
 * did. Nothing is stored and no attempt is repeated, but what the node does elsewhere does happen.
 */
export async function testStep(
  deps: {
    services: NodeServices;
    clock: Clock;
    report(message: string, fields: Record<string, unknown>): void;
  },
  target: WorkflowTarget,
  definition: Definition,
  { node: asked, input_data = {}, outputs = {} }: TestStep,
) {
  const node = typeof asked === "string" ? find(definition.nodes, asked) : checked(asked as Node);
  if (!node)
    throw invalidField("node", "a node, or the name of one of the workflow", String(asked).slice(0, 100));
  if (waits(node)) throw invalidField("node", "a node that waits for nobody", node.node_type_name);
  const { clock } = deps;
  const input = input_data as JsonObject;
  const made = newExecution(target, { input, source: "test", metadata: {}, hop: 0 }, clock.now());
  const execution = { ...made, id: newId(), started_at: made.created_at };
  const limit = new AbortController();
  const disarm = realTime(clock).after(LONGEST_MS, () => limit.abort());
  const run = newRun(
    {
      ...deps,
      journal: { mark: async () => true, checkpoint: async () => true },
      signal: () => limit.signal,
      isAborted: () => limit.signal.aborted,
    },
    { execution, program: { nodes: [once(node)], output_mapping: {} }, input },
  );
  run.given = outputs as JsonObject;
  try {
    const outcome = await interpret(run);
    const steps = presentSteps([...new Map(run.unsaved.map((step) => [step.position, step])).values()]);
    const error =
      outcome.kind === "failed"
        ? outcome.error
        : outcome.kind === "lost"
          ? {
              code: "TIMEOUT",
              message: `The step did not end within ${LONGEST_MS / 1_000} s.`,
              node: node.name,
            }
          : null;
    const first = steps.find((step) => step.position === "0");
    return {
      status: error ? "failed" : (first?.status ?? "failed"),
      input: first?.input ?? null,
      output: outcome.kind === "success" ? outcome.output : null,
      error,
      duration_seconds: (clock.now() - execution.started_at) / 1_000,
      tokens: run.spent.tokens,
      external_calls: run.spent.external_calls,
      steps,
    };
  } finally {
    disarm();
  }
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

/** Waits and calls of other workflows need a stored run. */
const waits = (node: Node): boolean =>
  (nodeType(node.node_type_name)?.flow?.stored ?? false) ||
  listsOf(node).some((list) => list.nodes.some(waits));

const once = (node: Node): Node => {
  const options = node.input_config["_options"] as JsonObject | undefined;
  const _options: Record<string, Json> = { ...options, retry: { max_attempts: 1 } };
  return { ...node, input_config: { ...node.input_config, _options } };
};
