import type { Clock } from "../lib/clock.ts";
import type { JsonObject } from "../lib/json.ts";
import { nodeType } from "../nodes/index.ts";
import type { NodeServices } from "../nodes/node.ts";
import type { Definition } from "../workflows/service.ts";
import { conclude } from "./conclude.ts";
import { startedEvent } from "./events.ts";
import { interpret, type Run } from "./interpreter.ts";
import type { ExecutionRow } from "./store.ts";

// More than these take long enough to be worth a place in the queue.
const MOST_NODES = 20;
const LONGEST_INPUT = 64 * 1024;

/** A short program of nodes without an effect, with little to work on: running it is cheaper than queueing it. */
export const isQuick = (
  { nodes }: Pick<Definition, "nodes">,
  { input }: Pick<ExecutionRow, "input">,
): boolean =>
  input.length <= LONGEST_INPUT &&
  nodes.length <= MOST_NODES &&
  nodes.every((node) => nodeType(node.node_type_name)?.effect === "none");

/**
 * Runs a quick program before it is accepted, so that request, run and result are one commit: nothing has
 * happened anywhere until that commit, and after it there is nothing left to do. Undefined when the run
 * wants to wait, for a retry say: then it takes the way of all others.
 */
export async function runAtOnce(
  deps: {
    services: NodeServices;
    clock: Clock;
    report(message: string, fields: Record<string, unknown>): void;
  },
  { execution, definition, input }: { execution: ExecutionRow; definition: Definition; input: JsonObject },
): Promise<ReturnType<typeof conclude> | undefined> {
  const { clock } = deps;
  const started_at = execution.created_at;
  const run: Run = {
    execution: { ...execution, started_at },
    program: definition,
    input,
    done: new Map(),
    services: deps.services,
    clock,
    signal: () => new AbortController().signal,
    isAborted: () => false,
    report: (error, { execution_id, name }) =>
      deps.report("a step failed unexpectedly", { execution_id, name, error }),
    spent: { external_calls: 0, tokens: 0, steps_completed: 0 },
    unsaved: [],
    outputCharacters: 0,
    untold: [startedEvent(execution, input, started_at)],
    journal: NO_JOURNAL,
  };
  const outcome = await interpret(run);
  return outcome.kind === "success" || outcome.kind === "failed"
    ? conclude(run, outcome, clock.now())
    : undefined;
}

// Only steps with an effect are written down on the way.
const NO_JOURNAL: Run["journal"] = { mark: async () => false, checkpoint: async () => false };
