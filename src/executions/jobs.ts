import { withOutbox } from "../events/outbox.ts";
import type { Events, NewEvent } from "../events/service.ts";
import type { Outbox } from "../events/store.ts";
import { defineJob, done, type Fate, type JobKind, type JobRun, settled, settledUntil } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NodeServices } from "../nodes/node.ts";
import type { Definition } from "../workflows/service.ts";
import { conclude } from "./conclude.ts";
import { endedEvent, startedEvent, stepEvents } from "./events.ts";
import { interpret, type Outcome, type Run } from "./interpreter.ts";
import type { ExecutionRow, ExecutionStore, StepRow } from "./store.ts";

/** What the accepting side already had in memory. */
export type RunPayload = {
  execution: ExecutionRow;
  definition: Definition;
  input: JsonObject;
};

type Deps = {
  store: ExecutionStore;
  events: Events;
  runner: Runner;
  clock: Clock;
  services: NodeServices;
  definition(hash: string): Promise<Definition>;
  /** Told of every execution that ended or went away, for those who wait for it. */
  ended(id: string): void;
  report(message: string, fields: Record<string, unknown>): void;
};

/** Runs one execution until it ends, waits or is taken away; every result is stored with the job's fate. */
export function runExecution(deps: Deps): JobKind {
  const { store, clock } = deps;

  /**
   * One commit of a result and what it tells of; held on to while the disk refuses. The first one of a run
   * that was queued also tells of its start.
   */
  async function commit(
    run: Run,
    list: NewEvent[],
    store: (outbox: Outbox[]) => Promise<boolean>,
  ): Promise<boolean> {
    const { execution, untold } = run;
    const events = [...untold, ...list];
    const held = await persist(clock, run.isAborted, () =>
      withOutbox(deps, execution, events, execution.hop, store),
    );
    untold.length = 0;
    return held;
  }

  async function load(ref: string, job: JobRun): Promise<(RunPayload & { steps: StepRow[] }) | undefined> {
    const payload = job.payload as RunPayload | undefined;
    if (payload) return { ...payload, steps: [] };
    const execution = await store.get(ref);
    if (!execution || !["queued", "running", "waiting"].includes(execution.state)) return undefined;
    const input = JSON.parse(execution.input) as JsonObject;
    const steps = execution.state === "queued" ? [] : await store.steps(ref);
    const definition = await deps.definition(execution.definition_hash);
    return { execution, input, steps, definition };
  }

  async function run(ref: string, job: JobRun): Promise<Fate> {
    const loaded = await load(ref, job);
    if (!loaded) return done;
    const { definition, input, steps } = loaded;
    const started_at = loaded.execution.started_at ?? clock.now();
    const execution = { ...loaded.execution, started_at };
    const { lease } = job;
    const state: Run = {
      execution,
      program: definition,
      input,
      done: new Map(steps.map((step) => [step.position, step])),
      services: deps.services,
      clock,
      signal: () => job.signal,
      isAborted: () => job.isAborted(),
      report: (error, { execution_id, name }) =>
        deps.report("a step failed unexpectedly", { execution_id, name, error }),
      spent: {
        external_calls: execution.external_calls,
        tokens: execution.tokens,
        steps_completed: execution.steps_completed,
      },
      unsaved: [],
      outputCharacters: steps.reduce((sum, step) => sum + (step.output?.length ?? 0), 0),
      untold: execution.state === "queued" ? [startedEvent(execution, input, started_at)] : [],
      journal: {
        mark: (step, durable) =>
          commit(state, [], (outbox) => store.mark({ lease, step, started_at, outbox, durable })),
        checkpoint: (saved, spent) =>
          commit(state, stepEvents(execution, saved), (outbox) =>
            store.checkpoint({ lease, id: execution.id, started_at, spent, steps: saved, outbox }),
          ),
      },
    };
    return settle(job, state, await interpret(state));
  }

  async function settle(job: JobRun, state: Run, outcome: Outcome): Promise<Fate> {
    const { execution, spent, unsaved: steps } = state;
    const { started_at } = execution;
    if (outcome.kind === "lost") return settled;
    const saving = { lease: job.lease, id: execution.id, started_at, spent, steps };
    if (outcome.kind === "suspended") {
      const { at, reason } = outcome;
      const held = await commit(state, stepEvents(execution, steps), (outbox) =>
        store.suspend({ ...saving, at, reason, outbox }),
      );
      return held ? settledUntil(at) : settled;
    }
    const { end, events } = conclude(state, outcome, clock.now());
    state.untold.length = 0;
    await commit(state, events, (outbox) =>
      store.finish({
        ...end,
        id: execution.id,
        workflow_id: execution.workflow_id,
        lease: job.lease,
        outbox,
      }),
    );
    deps.ended(execution.id);
    return settled;
  }

  /** Errand died several times with this run under way: it is ended, so that it cannot do so again. */
  async function dead(ref: string, reason: string): Promise<void> {
    const execution = await store.get(ref);
    if (!execution) return;
    const error = {
      code: "CRASH_LOOP",
      message: `Errand stopped three times while this ran (${reason}).`,
      node: null,
    };
    const at = clock.now();
    const ended = endedEvent(execution, {
      ...execution,
      status: "failed",
      started_at: execution.started_at ?? execution.created_at,
      at,
      input: JSON.parse(execution.input),
      output: null,
      error,
    });
    await withOutbox(deps, execution, [ended], execution.hop, (outbox) =>
      store.stop({ id: ref, state: "failed", error: JSON.stringify(error), ended_at: at, outbox }),
    );
    deps.ended(ref);
  }

  return defineJob({ kind: "execution.run", lane: "runs", per_key: 256, crash_limit: 3, run, dead });
}
