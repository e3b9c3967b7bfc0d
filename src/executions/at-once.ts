import type { Clock } from "../lib/clock.ts";
import type { JsonObject } from "../lib/json.ts";
import { nodeType } from "../nodes/index.ts";
import type { NodeServices } from "../nodes/node.ts";
import type { Node } from "../workflows/schema.ts";
import type { Definition } from "../workflows/service.ts";
import { conclude } from "./conclude.ts";
import { startedEvent } from "./events.ts";
import { interpret } from "./interpreter.ts";
import { newRun } from "./new-run.ts";
import { splitOptions } from "./options.ts";
import type { Journal, Outcome, Run } from "./run.ts";
import type { ExecutionRow } from "./store.ts";

// More than these take long enough to be worth a place in the queue.
const MOST_NODES = 20;
const LONGEST_INPUT = 64 * 1024;

/** A short program of nodes without an effect, with little to work on: running it is cheaper than queueing it. */
export const isQuick = (
  { nodes }: Pick<Definition, "nodes">,
  { input }: Pick<ExecutionRow, "input">,
): boolean => input.length <= LONGEST_INPUT && isShort(nodes);

const isShort = (nodes: Node[]): boolean => {
  // Most programs have no flow in them, and this is asked at every start.
  if (nodes.length <= MOST_NODES && nodes.every(isPlain)) return true;
  let short = short_of.get(nodes);
  if (short === undefined) {
    short = countQuick(nodes) <= MOST_NODES;
    short_of.set(nodes, short);
  }
  return short;
};
// Definitions are kept by content, so a list of nodes never changes.
const short_of = new WeakMap<Node[], boolean>();

const isPlain = ({ node_type_name }: Node): boolean => {
  const type = nodeType(node_type_name);
  return type?.effect === "none" && type.flow === undefined;
};

/** How many nodes there are, all levels together; more than any number where one is not quick. */
function countQuick(nodes: Node[]): number {
  let count = nodes.length;
  for (const { node_type_name, input_config } of nodes) {
    const type = nodeType(node_type_name);
    if (type?.effect !== "none" || type.flow?.quick === false) return Number.POSITIVE_INFINITY;
    for (const list of type.flow?.lists(input_config) ?? []) count += countQuick(list.nodes as Node[]);
    const { error_nodes } = splitOptions(input_config).options;
    if (error_nodes) count += countQuick(error_nodes);
  }
  return count;
}

type AtOnce = ReturnType<typeof conclude> | undefined;

/**
 * Runs a quick program before it is accepted, so that request, run and result are one commit: nothing has
 * happened anywhere until that commit, and after it there is nothing left to do. Undefined when the run
 * wants to wait, for a retry say: then it takes the way of all others.
 */
export function runAtOnce(
  deps: {
    services: NodeServices;
    clock: Clock;
    report(message: string, fields: Record<string, unknown>): void;
  },
  { execution, definition, input }: { execution: ExecutionRow; definition: Definition; input: JsonObject },
): AtOnce | Promise<AtOnce> {
  // Not copied: this is done for every start, and nobody else has it yet.
  const begun = Object.assign(execution, { started_at: execution.created_at });
  const run: Run = newRun(
    { ...deps, journal: NO_JOURNAL, signal: () => new AbortController().signal, isAborted: () => false },
    { execution: begun, program: definition, input },
  );
  run.untold.push(startedEvent(begun, input, begun.started_at));
  const outcome = interpret(run);
  const end = (outcome: Outcome): AtOnce =>
    outcome.kind === "success" || outcome.kind === "failed"
      ? conclude(run, outcome, deps.clock.now())
      : undefined;
  return outcome instanceof Promise ? outcome.then(end) : end(outcome);
}

// Only steps with an effect are written down on the way.
const NO_JOURNAL: Journal = { mark: async () => false, checkpoint: async () => false };
