import type { Json, JsonObject } from "../lib/json.ts";
import { renderDeep } from "../lib/template.ts";
import { NodeError, type NodeType } from "../nodes/node.ts";
import { LONGEST_WAIT_SECONDS } from "../nodes/wait.ts";
import { InnerFailure } from "./failure.ts";
import { endFlow, type FlowStep, inside } from "./flow.ts";
import { type Ended, endStep, FOREVER, keepInput, LOST, ownVars, record, takeAround } from "./run.ts";
import type { ExecutionError } from "./schema.ts";
import type { ExecutionRow } from "./store.ts";

// The flow nodes that have to do with other runs and with callers from outside.

/** Throws where a rendered configuration is not what the node type takes. */
export function checkedConfig(type: NodeType, config: unknown): void {
  const fault = [...type.input.faults(config), ...(type.check?.(config as Record<string, unknown>) ?? [])][0];
  if (!fault) return;
  const { field, expected, received } = fault;
  const where = field || "input_config";
  throw new NodeError("INVALID_CONFIG", `${where}: expected ${expected}, received ${received}`);
}

/**
 * Starts another workflow. The step is marked before, the other's run is stored under this step, so that a
 * crash between the two finds it again; its end wakes this run in the same commit.
 */
export async function callWorkflow(flow: FlowStep): Promise<Ended> {
  const { run, place, step, before, config, type, options } = flow;
  const { links } = run;
  if (!links) return LOST;
  const key = step.attempts > 1 ? `${step.position}#${step.attempts}` : step.position;
  let child = before ? await links.child(key) : undefined;
  if (!child) {
    const given = renderDeep(config, place.scope) as {
      workflow_id: string;
      workflow_input?: JsonObject;
      wait?: boolean;
    };
    checkedConfig(type, given);
    keepInput(run, step, given);
    const mark = { ...step, rev: run.rev++ };
    run.hasLoose = true;
    if (!(await run.journal.mark(mark, takeAround(run), options.on_unknown === "fail"))) return LOST;
    const { workflow_id, workflow_input: input = {}, wait = true } = given;
    child = await links.call({ key, workflow_id, input, waits: wait });
  }
  if (!child.parent_waits) {
    return endFlow(flow, { execution_id: child.id, status: "queued", workflow_output: null }, true);
  }
  if (child.ended_at === null) {
    record(run, { ...step, state: "waiting", wake_at: FOREVER });
    return { kind: "suspended", at: FOREVER, reason: "another workflow" };
  }
  if (child.state !== "success") {
    const error = JSON.parse(child.error ?? "null") as ExecutionError | null;
    throw new NodeError("WORKFLOW_FAILED", whyItEnded(child, error), { retryable: true });
  }
  const workflow_output = child.output === null ? null : (JSON.parse(child.output) as Json);
  return endFlow(flow, { execution_id: child.id, status: "success", workflow_output }, true);
}

/** Of workflows that call one another the words of the innermost alone: what went wrong is said there. */
function whyItEnded({ id, state }: ExecutionRow, error: ExecutionError | null): string {
  if (error?.code === "WORKFLOW_FAILED") return error.message;
  return `Execution ${id} ended ${state}: ${error ? `${error.code}: ${error.message}` : state}`;
}

export async function waitFor(flow: FlowStep): Promise<Ended> {
  const { run, place, step, before, config, type } = flow;
  if (!run.links) return LOST;
  const { callback, ...times } = config;
  const now = run.clock.now();
  if (before?.state !== "waiting") {
    const { nodes, ...limits } = (callback ?? {}) as JsonObject;
    const given = renderDeep(times, place.scope) as { seconds?: number; until?: string };
    const limit = renderDeep(limits, place.scope) as { timeout_seconds?: number };
    const own = callback === undefined ? {} : { callback: { ...limit, ...(nodes ? { nodes } : {}) } };
    checkedConfig(type, { ...given, ...own });
    keepInput(run, step, callback === undefined ? given : { callback: limit });
    const seconds = callback === undefined ? given.seconds : limit.timeout_seconds;
    step.wake_at = given.until === undefined ? timeOf(now, seconds) : momentOf(given.until, now);
  } else step.wake_at = before.wake_at;
  const at = step.wake_at ?? FOREVER;
  if (callback !== undefined) return waitForCall(flow, at, (callback as JsonObject)["nodes"]);
  if (now >= at) return endFlow(flow, { resumed_by: "time", body: null });
  record(run, { ...step, state: "waiting" });
  return { kind: "suspended", at, reason: "a wait" };
}

const timeOf = (now: number, seconds: number | undefined): number =>
  seconds === undefined ? FOREVER : now + seconds * 1_000;

// With its zone: a time without one means another moment wherever it is read.
const MOMENT = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d))?$/i;

function momentOf(text: string, now: number): number {
  const at = MOMENT.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) {
    throw new NodeError("INVALID_CONFIG", "until: expected an ISO 8601 time with its zone");
  }
  if (at - now > LONGEST_WAIT_SECONDS * 1_000) {
    throw new NodeError("INVALID_CONFIG", "until: expected a time within a year");
  }
  return at;
}

/** The address exists, durably, before anybody is told of it; a call that comes early is kept. */
async function waitForCall(flow: FlowStep, at: number, nodes: Json | undefined): Promise<Ended> {
  const { run, place, step, before } = flow;
  const links = run.links!;
  const row = { ...step, state: "waiting" as const, rev: run.rev };
  run.rev++;
  run.hasLoose = true;
  if (step.position.includes(".")) run.done.set(step.position, row);
  const opened =
    before?.state === "waiting"
      ? await links.callback(step.position)
      : await links.openWait(row, takeAround(run));
  if (!opened) return LOST;
  if (nodes !== undefined) {
    const scope = ownVars(place.scope, { callback: { id: opened.id, url: opened.url } });
    const told = await inside(flow, nodes, "callback", { scope });
    if (told.kind === "failed") throw new InnerFailure(told.error);
    if (told.kind !== "value") return told;
  }
  const called = (await links.callback(step.position))?.signal;
  if (called) return endFlow(flow, { resumed_by: "callback", body: called.body });
  if (run.clock.now() >= at) return endFlow(flow, { resumed_by: "timeout", body: null });
  return { kind: "suspended", at, reason: "a call from outside" };
}

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
// What the server says of its own connection and of whose page this is.
const NOT_OURS =
  /^(connection|content-encoding|content-length|date|keep-alive|server|set-cookie|trailer|transfer-encoding|upgrade|x-request-id)$/i;

export async function respond(flow: FlowStep): Promise<Ended> {
  const { run, place, step, config, type } = flow;
  const given = renderDeep(config, place.scope) as { status?: number; headers?: JsonObject; body?: Json };
  checkedConfig(type, given);
  keepInput(run, step, given);
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given.headers ?? {})) {
    if (!HEADER_NAME.test(name) || NOT_OURS.test(name) || !HEADER_VALUE.test(String(value))) {
      throw new NodeError(
        "BAD_HEADER",
        `The header ${JSON.stringify(name.slice(0, 100))} cannot be answered.`,
      );
    }
    headers[name.toLowerCase()] = String(value);
  }
  const sent = run.response === null;
  const value = flow.node.output_mapping
    ? renderDeep(flow.node.output_mapping as JsonObject, { ...place.scope, output: { sent } })
    : { sent };
  const ended = endStep(run, step, "success", value, true);
  if (sent) run.response = JSON.stringify({ status: given.status ?? 200, headers, body: given.body ?? null });
  return ended;
}
