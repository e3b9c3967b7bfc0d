import type { NewEvent } from "../events/service.ts";
import type { News } from "../jobs/job.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { NodeError, type NodeServices } from "../nodes/node.ts";
import type { Node } from "../workflows/schema.ts";
import type { ExecutionError } from "./schema.ts";
import type { ExecutionRow, Spent, StepRow } from "./store.ts";

export type Program = { nodes: Node[]; output_mapping: JsonObject };

export type Outcome =
  | { kind: "success"; output: Json }
  | { kind: "failed"; error: ExecutionError }
  | { kind: "suspended"; at: number; reason: string }
  /** The job was taken away under way: cancelled, or held by someone else by now. */
  | { kind: "lost" };

/** How a node or a list of nodes ended. */
export type Ended =
  | { kind: "value"; value: Json; mustSave: boolean }
  | Exclude<Outcome, { kind: "success" }>
  /** stop_workflow: the whole run ends so. */
  | { kind: "stopped"; outcome: Extract<Outcome, { kind: "success" | "failed" }> }
  /** A time limit further up has passed. */
  | { kind: "expired" }
  /** Whatever runs beside it has decided already. */
  | { kind: "cut" };

/** Where steps go. All answer false when the run does not hold its job any more. */
export type Journal = {
  /** A step with an effect is about to happen; `around` are the steps that it stands in. */
  mark(step: StepRow, around: StepRow[], durable: boolean): Promise<boolean>;
  /** What was done so far must be on disk before the run goes on. */
  checkpoint(steps: StepRow[], spent: Spent): Promise<boolean>;
};

export type CallRequest = { key: string; workflow_id: string; input: JsonObject; waits: boolean };

/** What a run has to do with other runs and with callers from outside. */
export type Links = {
  /** Whom to wake when something that a node waits for has come; undefined: it is waited for on the spot. */
  execution_id?: string;
  /** Starts the execution that `key`, a step of this run, stands for; the one there is, if it did before. */
  call(request: CallRequest): Promise<ExecutionRow>;
  child(key: string): Promise<ExecutionRow | undefined>;
  /** Stores a step that waits for a caller. Undefined: the run does not hold its job any more. */
  openWait(step: StepRow, around: StepRow[]): Promise<Callback | undefined>;
  callback(position: string): Promise<Callback | undefined>;
};

export type Callback = { id: string; url: string; signal?: { body: Json } };

export type Run = {
  execution: ExecutionRow & { started_at: number };
  program: Program;
  input: JsonObject;
  /** What templates find besides, where a node is tried out alone. */
  given?: JsonObject;
  /** Stored steps of an earlier life, by position; those below the first level of this one as well. */
  done: Map<string, StepRow>;
  journal: Journal;
  /** Without them the run is not stored yet, or never will be: it keeps to itself. */
  links?: Links;
  services: NodeServices;
  clock: Clock;
  /** Made when first asked for: a run that leaves this program nowhere needs none. */
  signal(): AbortSignal;
  isAborted(): boolean;
  /** Told how many answers from elsewhere are waited for more, or fewer, from now on. */
  elsewhere(change: number): void;
  /** Of what the run waits for, come while it was under way. */
  news: News;
  /** Told of failures that are Errand's own fault; the step shows no more than that. */
  report(error: unknown, step: StepRow): void;
  spent: Spent;
  /** Steps that no checkpoint has stored yet; the caller stores them with the outcome. */
  unsaved: StepRow[];
  /** Those of them that other steps run inside of. */
  around: StepRow[];
  /** What respond_to_webhook said, as JSON. */
  response: string | null;
  /** The output that was put into words last: a run's own is that of its last step, mostly. */
  said?: { value: Json; text: string };
  /** Of every output so far, those of an earlier life included; and of the inputs that are kept. */
  outputCharacters: number;
  inputCharacters: number;
  /** How many steps there are so far. */
  steps: number;
  /** The next change's number. */
  rev: number;
  /** Steps may be left without an end when the run ends: they are ended with it. */
  hasLoose: boolean;
  /** Events that no commit has carried yet. */
  untold: NewEvent[];
  /** When everybody else last had a turn. */
  turn: number;
};

export type Scope = Record<string, Json>;

/** Where a list of nodes stands. */
export type Place = {
  /** Of positions: "" for the workflow's own list, "2.then." below its third node. */
  prefix: string;
  scope: Scope;
  /** Aborted when what runs beside this list has decided without it. */
  signal?: AbortSignal;
  /** The earliest time limit around. */
  deadline?: number;
};

/** Waits for something that has no time of its own: the last day there is. */
export const FOREVER = 8_640_000_000_000_000;

export const LOST: Ended = { kind: "lost" };
export const CUT: Ended = { kind: "cut" };

const LARGEST_OUTPUT = 1024 * 1024;
// All outputs of a run together: a long chain of steps, each within its cap, must not fill memory and disk.
const LARGEST_RUN = 8 * 1024 * 1024;
const MOST_STEPS = 50_000;

/** The run as a whole has taken too much: it ends, whatever the step says of its errors. */
export class RunLimit extends NodeError {}

/** A step at its beginning, or as an attempt before this one left it. */
export const stepOf = (run: Run, node: Node, position: string, before?: StepRow): StepRow => ({
  execution_id: run.execution.id,
  position,
  seq: Number.parseInt(position, 10),
  rev: 0,
  name: node.name,
  node_type_name: node.node_type_name,
  state: "started",
  attempts: before?.attempts ?? 0,
  input: before?.input ?? null,
  output: null,
  error: null,
  started_at: before?.started_at ?? run.clock.now(),
  ended_at: null,
  wake_at: null,
});

/** Puts a step's new state down, to be stored with the next checkpoint. */
export function record(run: Run, row: StepRow): void {
  row.rev = run.rev++;
  run.unsaved.push(row);
  // A list inside of another may be run through once more in this life; the workflow's own is not.
  if (row.position.includes(".")) run.done.set(row.position, row);
}

/** A step that others run inside of: it must be known before any of them is. */
export function recordAround(run: Run, row: StepRow): void {
  record(run, row);
  run.done.set(row.position, row);
  run.around.push(row);
  run.hasLoose = true;
}

/** The steps around that are not stored yet: taken by whoever stores a step that stands in them. */
export const takeAround = (run: Run): StepRow[] => run.around.splice(0);

export async function saveProgress(run: Run): Promise<boolean> {
  run.around.length = 0;
  // A copy: what others spend meanwhile belongs to steps that this commit does not hold.
  return run.journal.checkpoint(run.unsaved.splice(0), { ...run.spent });
}

/** Keeps what is shown of a step's input, as long as all inputs together stay within bounds. */
export function keepInput(run: Run, step: StepRow, input: unknown): void {
  const text = JSON.stringify(input);
  if (run.inputCharacters + text.length > LARGEST_RUN) return;
  run.inputCharacters += text.length;
  step.input = text;
}

export function countStep(run: Run): void {
  if (++run.steps > MOST_STEPS) throw new RunLimit("RUN_TOO_LONG", `A run has at most ${MOST_STEPS} steps.`);
}

/** Ends a step well. Throws when its output, or all outputs together, are too large. */
export function endStep(
  run: Run,
  step: StepRow,
  state: "success" | "skipped",
  value: Json | undefined,
  mustSave: boolean,
): Ended {
  const output = JSON.stringify(value ?? null);
  if (output.length > LARGEST_OUTPUT) {
    throw new NodeError("OUTPUT_TOO_LARGE", `The step's output is over ${LARGEST_OUTPUT / 1024} KiB.`);
  }
  run.outputCharacters += output.length;
  if (run.outputCharacters > LARGEST_RUN) {
    throw new RunLimit("RUN_TOO_LARGE", `The outputs of this run are over ${LARGEST_RUN / 1024 ** 2} MiB.`);
  }
  record(run, { ...step, state, output, wake_at: null, ended_at: run.clock.now() });
  if (state === "success") run.spent.steps_completed++;
  run.said = { value: value ?? null, text: output };
  return { kind: "value", value: value ?? null, mustSave };
}

/** Lists that run beside each other do not see each other's variables, or a crash would change what they see. */
export const ownVars = (scope: Scope, more: Scope = {}): Scope => ({
  ...scope,
  ...more,
  vars: { ...(isObject(scope["vars"]) ? (scope["vars"] as JsonObject) : {}) },
});
