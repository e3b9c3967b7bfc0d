import type { Json, JsonObject } from "../lib/json.ts";
import { renderDeep } from "../lib/template.ts";
import { MOST_ITEMS } from "../nodes/for-each.ts";
import { NodeError, type NodeType } from "../nodes/node.ts";
import { holds } from "../nodes/when.ts";
import type { Node } from "../workflows/schema.ts";
import { type Around, InnerFailure } from "./failure.ts";
import { callWorkflow, checkedConfig, respond, waitFor } from "./flow-outside.ts";
import { runPool } from "./pool.ts";
import { type Ended, endStep, keepInput, ownVars, type Place, recordAround } from "./run.ts";
import type { StepRow } from "./store.ts";

/** A flow node under way. `before` is what is stored of it, where it was begun already. */
export type FlowStep = Around & {
  node: Node;
  type: NodeType;
  step: StepRow;
  before: StepRow | undefined;
  config: Record<string, Json>;
};

type Carry = (flow: FlowStep) => Promise<Ended>;

const CARRIED: Record<string, Carry> = {
  condition: decide,
  for_each: forEach,
  parallel,
  call_other_workflow: callWorkflow,
  wait: waitFor,
  respond_to_webhook: respond,
  stop_workflow: stop,
};

/** Carries out a flow node. Throws what fails it; its `timeout_seconds` counts from its beginning, waits included. */
export async function runFlow(flow: FlowStep): Promise<Ended> {
  const { run, node, step, options } = flow;
  const carry = CARRIED[node.node_type_name];
  if (!carry) throw new Error(`nobody carries out ${node.node_type_name}`);
  const own =
    options.timeout_seconds === undefined ? undefined : step.started_at + options.timeout_seconds * 1_000;
  const deadline = Math.min(own ?? Number.POSITIVE_INFINITY, flow.place.deadline ?? Number.POSITIVE_INFINITY);
  const place = own === undefined ? flow.place : { ...flow.place, deadline };
  const isLate = () => own !== undefined && run.clock.now() >= own;
  const ended = isLate() ? ({ kind: "expired" } as const) : await carry({ ...flow, place });
  if (ended.kind === "expired" && isLate()) {
    throw new NodeError("TIMEOUT", `The step did not end within ${options.timeout_seconds} s.`);
  }
  return ended.kind === "suspended" && own !== undefined ? { ...ended, at: Math.min(ended.at, own) } : ended;
}

/** The node's own `output_mapping` over what it came to. */
export function endFlow({ run, node, place, step }: FlowStep, output: Json, mustSave = false): Ended {
  const value = node.output_mapping
    ? renderDeep(node.output_mapping as JsonObject, { ...place.scope, output })
    : output;
  return endStep(run, step, "success", value, mustSave);
}

/** Puts the step down before anything inside of it runs, with what was decided: it holds for every later life. */
function begin<T extends Json>(flow: FlowStep, resolve: () => T): T {
  const { run, step, before } = flow;
  if (before && before.state !== "retrying" && before.input !== null) return JSON.parse(before.input) as T;
  const decided = resolve();
  // Not bounded with the inputs that are only shown: this one is read again.
  step.input = JSON.stringify(decided);
  recordAround(run, { ...step });
  return decided;
}

/** Runs a list of nodes inside of this one; a promise always, since several may be under way beside each other. */
export const inside = async (
  { run, place, step, runList }: FlowStep,
  nodes: unknown,
  at: string,
  more: Partial<Place> = {},
): Promise<Ended> =>
  runList(run, nodes as Node[], {
    signal: place.signal,
    deadline: place.deadline,
    // What is named inside stays inside; a condition's variables are everybody's, as it runs in its turn.
    scope: { ...place.scope },
    ...more,
    prefix: `${step.position}.${at}.`,
  });

type ElseIf = { if: Json; then: Json };

async function decide(flow: FlowStep): Promise<Ended> {
  const { config, place } = flow;
  const elseIfs = (config["else_if"] ?? []) as ElseIf[];
  const { branch } = begin(flow, () => {
    if (holds(config["if"] ?? null, place.scope)) return { branch: "then" };
    const index = elseIfs.findIndex((each) => holds(each.if, place.scope));
    if (index >= 0) return { branch: `else_if.${index}` };
    return { branch: config["else"] === undefined ? null : "else" };
  });
  if (branch === null) return endFlow(flow, { branch, output: null });
  const ended = await inside(flow, branchNodes(config, branch), branch);
  if (ended.kind === "failed") throw new InnerFailure(ended.error);
  return ended.kind === "value" ? endFlow(flow, { branch, output: ended.value }) : ended;
}

/** The nodes of a condition's branch by the branch's name: then, else_if.0, else. */
export function branchNodes(config: Record<string, Json>, branch: string): Node[] {
  const elseIf = branch.startsWith("else_if.") ? branch.slice("else_if.".length) : undefined;
  const nodes =
    elseIf === undefined ? config[branch] : ((config["else_if"] ?? []) as ElseIf[])[Number(elseIf)]?.then;
  return (nodes ?? []) as unknown as Node[];
}

type Loop = { items: Json[]; parallelism?: number; on_item_error?: string };

async function forEach(flow: FlowStep): Promise<Ended> {
  const { run, place, config } = flow;
  const { nodes, ...own } = config;
  const { items, parallelism, on_item_error } = begin(flow, () => {
    const loop = renderDeep(own, place.scope) as JsonObject;
    const count = Array.isArray(loop["items"]) ? loop["items"].length : 0;
    if (count > MOST_ITEMS) {
      throw new NodeError("TOO_MANY_ITEMS", `for_each takes at most ${MOST_ITEMS} items, not ${count}.`);
    }
    checkedConfig(flow.type, { ...loop, nodes: nodes ?? null });
    return loop as Loop;
  });
  const results: Json[] = new Array(items.length).fill(null);
  const errors: JsonObject[] = [];
  const ended = await runPool(run, place, {
    total: items.length,
    limit: parallelism ?? 1,
    each: (index, signal) => {
      const loop = {
        index,
        item: items[index]!,
        first: index === 0,
        last: index === items.length - 1,
      };
      return inside(flow, nodes, `items.${index}`, { signal, scope: ownVars(place.scope, { loop }) });
    },
    judge(index, ended) {
      if (ended.kind === "value") results[index] = ended.value;
      else if (on_item_error !== "continue") return ended;
      else errors.push({ index, code: ended.error.code, message: ended.error.message });
      return undefined;
    },
  });
  if (ended?.kind === "failed") throw new InnerFailure(ended.error);
  if (ended) return ended;
  errors.sort((a, b) => Number(a["index"]) - Number(b["index"]));
  return endFlow(flow, { results, errors, count: items.length });
}

async function parallel(flow: FlowStep): Promise<Ended> {
  const { run, place, config } = flow;
  const branches = Object.entries(config["branches"] as Record<string, Json>);
  const { fail_on } = begin(flow, () => ({
    fail_on: String(renderDeep(config["fail_on"] ?? "any", place.scope)),
  }));
  const results: JsonObject = {};
  for (const [name] of branches) results[name] = null;
  let failures = 0;
  const ended = await runPool(run, place, {
    total: branches.length,
    limit: branches.length,
    each: (index, signal) => {
      const [name, nodes] = branches[index]!;
      return inside(flow, nodes, name, { signal, scope: ownVars(place.scope) });
    },
    judge(index, ended) {
      const [name] = branches[index]!;
      if (ended.kind === "value") results[name] = ended.value;
      else if (fail_on !== "all" || ++failures === branches.length) return ended;
      else results[name] = { error: { code: ended.error.code, message: ended.error.message } };
      return undefined;
    },
  });
  if (ended?.kind === "failed") throw new InnerFailure(ended.error);
  return ended ?? endFlow(flow, results);
}

async function stop(flow: FlowStep): Promise<Ended> {
  const { run, place, step, config, type } = flow;
  const given = renderDeep(config, place.scope) as { status?: string; message?: string; output?: Json };
  checkedConfig(type, given);
  keepInput(run, step, given);
  const output = given.output ?? null;
  endStep(run, step, "success", output, true);
  run.hasLoose ||= step.position.includes(".");
  if (given.status !== "failed") return { kind: "stopped", outcome: { kind: "success", output } };
  const message = given.message ?? "The workflow stopped itself.";
  return {
    kind: "stopped",
    outcome: { kind: "failed", error: { code: "STOPPED", message, node: step.name } },
  };
}
