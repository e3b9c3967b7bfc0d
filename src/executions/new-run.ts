import type { News } from "../jobs/job.ts";
import type { Clock } from "../lib/clock.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NodeServices } from "../nodes/node.ts";
import type { Journal, Links, Program, Run } from "./run.ts";
import type { ExecutionRow, StepRow } from "./store.ts";

/** A run as it stands: at its beginning, or where its stored steps end. */
export function newRun(
  means: {
    services: NodeServices;
    clock: Clock;
    journal: Journal;
    links?: Links;
    signal(): AbortSignal;
    isAborted(): boolean;
    news?: News;
    elsewhere?(change: number): void;
    report(message: string, fields: Record<string, unknown>): void;
  },
  of: {
    execution: ExecutionRow & { started_at: number };
    program: Program;
    input: JsonObject;
    steps?: StepRow[];
  },
): Run {
  const { execution, program, input, steps = [] } = of;
  const { services, clock, journal, links, signal, isAborted, news = NO_NEWS, report } = means;
  const run: Run = {
    execution,
    program,
    input,
    done: new Map(),
    journal,
    links,
    services,
    clock,
    signal,
    isAborted,
    news,
    elsewhere: means.elsewhere ?? (() => {}),
    report: (error, { execution_id, name }) =>
      report("a step failed unexpectedly", { execution_id, name, error }),
    spent: {
      external_calls: execution.external_calls,
      tokens: execution.tokens,
      steps_completed: execution.steps_completed,
    },
    unsaved: [],
    around: [],
    response: execution.response,
    outputCharacters: 0,
    inputCharacters: 0,
    steps: steps.length,
    rev: 1,
    hasLoose: false,
    untold: [],
    turn: performance.now(),
  };
  for (const step of steps) {
    run.done.set(step.position, step);
    run.outputCharacters += step.output?.length ?? 0;
    run.inputCharacters += step.input?.length ?? 0;
    run.rev = Math.max(run.rev, step.rev + 1);
    run.hasLoose ||= step.state === "started" || step.state === "waiting" || step.state === "retrying";
  }
  return run;
}

// A run that is not stored waits for nobody.
const NO_NEWS: News = { count: () => 0, listen: () => () => {} };
