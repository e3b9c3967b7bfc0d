import type { Json, JsonObject } from "../lib/json.ts";
import { TemplateError } from "../lib/template.ts";
import { NodeError, type NodeType } from "../nodes/node.ts";
import type { Node } from "../workflows/schema.ts";
import { retryDelay, retryPolicy, type StepOptions } from "./options.ts";
import { type Ended, ownVars, type Place, type Run, record } from "./run.ts";
import type { ExecutionError } from "./schema.ts";
import type { StepRow } from "./store.ts";

export type RunList = (run: Run, nodes: Node[], place: Place) => Ended | Promise<Ended>;

/** A step in its place, with what it says of its own failure. */
export type Around = { run: Run; place: Place; options: StepOptions; runList: RunList };

/** A list inside of a node failed: the error names the node that is to blame. */
export class InnerFailure extends Error {
  constructor(readonly error: ExecutionError) {
    super(error.message);
    this.name = "InnerFailure";
  }
}

/** What a failed attempt comes to: another one later, or what `on_error` says. */
export async function failStep(
  around: Around,
  step: StepRow,
  type: NodeType | undefined,
  cause: unknown,
): Promise<Ended> {
  const { run, options } = around;
  const error = cause instanceof InnerFailure ? cause.error : { ...toError(cause), node: step.name };
  if (error.code === "INTERNAL" && !(cause instanceof InnerFailure)) run.report(cause, step);
  const retry = retryPolicy(options, type?.retries);
  const now = run.clock.now();
  if (cause instanceof NodeError && cause.retryable && step.attempts < retry.max_attempts) {
    const wake_at = now + retryDelay(retry, step.attempts);
    record(run, { ...step, state: "retrying", error: JSON.stringify(error), wake_at });
    return { kind: "suspended", at: wake_at, reason: error.message };
  }
  const value = goOnWith(options, error);
  const failed: StepRow = {
    ...step,
    state: "failed",
    output: value === undefined || value === null ? null : JSON.stringify(value),
    error: JSON.stringify(error),
    ended_at: now,
    wake_at: null,
  };
  record(run, failed);
  return goOnAfterFailure(around, failed, true);
}

/** A step that has failed for good: what comes of it, the same in this life and in a later one. */
export async function goOnAfterFailure(around: Around, failed: StepRow, mustSave = false): Promise<Ended> {
  const { run, place, options, runList } = around;
  const error = JSON.parse(failed.error ?? "null") as ExecutionError;
  const value = failed.output === null ? null : (JSON.parse(failed.output) as Json);
  switch (options.on_error) {
    case "continue":
    case "default":
      return { kind: "value", value, mustSave };
    case "route": {
      if (failed.output !== null) return { kind: "value", value, mustSave };
      const ended = await runList(run, options.error_nodes ?? [], {
        ...place,
        prefix: `${failed.position}.on_error.`,
        scope: ownVars(place.scope, { error: error as unknown as JsonObject }),
      });
      if (ended.kind !== "value") return ended;
      record(run, { ...failed, output: JSON.stringify(ended.value) });
      return { ...ended, mustSave: true };
    }
    default:
      return { kind: "failed", error };
  }
}

function goOnWith(options: StepOptions, { code, message }: ExecutionError): Json | undefined {
  if (options.on_error === "default") return options.default_output;
  return options.on_error === "continue" ? { error: { code, message } } : undefined;
}

export function toError(error: unknown): { code: string; message: string } {
  if (error instanceof NodeError) return { code: error.code, message: error.message };
  if (error instanceof TemplateError) return { code: "TEMPLATE", message: error.message };
  return { code: "INTERNAL", message: "The step failed for a reason of Errand's own; the log has it." };
}
