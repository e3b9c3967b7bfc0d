import { withOutbox, withPlacements } from "../events/outbox.ts";
import type { Events, NewEvent } from "../events/service.ts";
import type { Outbox } from "../events/store.ts";
import { defineJob, done, type Fate, type JobKind, type JobRun, settled, settledUntil } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { Placement } from "../jobs/placement.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import type { JsonObject } from "../lib/json.ts";
import type { NodeServices } from "../nodes/node.ts";
import type { Definition } from "../workflows/service.ts";
import { conclude } from "./conclude.ts";
import { runsAtOnce } from "./concurrency.ts";
import { endedEvent, startedEvent, stepEvents } from "./events.ts";
import { interpret } from "./interpreter.ts";
import { newRun } from "./new-run.ts";
import type { Journal, Links, Outcome, Run } from "./run.ts";
import type { ExecutionError } from "./schema.ts";
import type { ExecutionRow, ExecutionStore, Queued, StepRow } from "./store.ts";

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
  /** What a run has to do with others: see `createLinks`. */
  links(run: { execution: ExecutionRow; job: JobRun; commit: Commit }): Links;
  /** What is to run because this one failed, put together with its end. */
  afterFailure(failed: ExecutionRow, error: ExecutionError): Promise<NextRun | undefined>;
  /** Ends the executions that a run was waiting for when it ended. */
  cancelWaitedFor(id: string): Promise<void>;
  /** Told of every execution that ended, went away or was answered, for those who wait for it. */
  ended(id: string): void;
  /** Told of everything stored of a run, for those who follow it. */
  changed(id: string): void;
  report(message: string, fields: Record<string, unknown>): void;
};

/** One commit of a result and what it tells of; held on to while the disk refuses. */
export type Commit = (list: NewEvent[], store: (outbox: Outbox[]) => Promise<boolean>) => Promise<boolean>;

export type NextRun = { queued: Queued; placement: Placement };

/** Runs one execution until it ends, waits or is taken away; every result is stored with the job's fate. */
export function runExecution(deps: Deps): JobKind {
  const { store, clock, runner } = deps;

  async function load(ref: string, job: JobRun): Promise<(RunPayload & { steps: StepRow[] }) | undefined> {
    const payload = job.payload as RunPayload | undefined;
    if (payload) return { ...payload, steps: [] };
    const execution = await store.get(ref);
    if (!execution || !["queued", "running", "waiting"].includes(execution.state)) return undefined;
    const input = JSON.parse(execution.input) as JsonObject;
    const isFresh = execution.state === "queued" && execution.origin_id === null;
    const steps = isFresh ? [] : await store.steps(ref);
    const definition = await deps.definition(execution.definition_hash);
    return { execution, input, steps, definition };
  }

  /** Nobody waits for the result any more: the parent ended while this was started. */
  async function isOrphan({ parent_id, parent_waits }: ExecutionRow): Promise<boolean> {
    if (parent_id === null || !parent_waits) return false;
    const parent = await store.get(parent_id);
    return parent !== undefined && parent.ended_at !== null;
  }

  async function run(ref: string, job: JobRun): Promise<Fate> {
    const loaded = await load(ref, job);
    if (!loaded) return done;
    job.elsewhere = 0;
    const { definition, input, steps } = loaded;
    const started_at = loaded.execution.started_at ?? clock.now();
    const execution = { ...loaded.execution, started_at };
    const { lease } = job;
    if (await isOrphan(execution)) {
      await deps.cancelWaitedFor(execution.parent_id!);
      return settled;
    }
    // The first commit of a run that was queued also tells of its start.
    const untold = execution.state === "queued" ? [startedEvent(execution, input, started_at)] : [];
    const commit = inOrder(async (list, store) => {
      const events = [...untold.splice(0), ...list];
      const held = await persist(clock, job.isAborted.bind(job), () =>
        withOutbox(deps, execution, events, execution.hop, store),
      );
      deps.changed(execution.id);
      return held;
    });
    let answered = execution.response !== null;
    const journal: Journal = {
      mark: (step, around, durable) =>
        commit([], (outbox) => store.mark({ lease, steps: [...around, step], started_at, outbox, durable })),
      async checkpoint(saved, spent) {
        const { response } = state;
        const held = await commit(stepEvents(execution, saved), (outbox) =>
          store.checkpoint({ lease, id: execution.id, started_at, spent, steps: saved, response, outbox }),
        );
        if (held && !answered && response !== null) {
          answered = true;
          deps.ended(execution.id);
        }
        return held;
      },
    };
    const state = newRun(
      {
        ...deps,
        journal,
        links: deps.links({ execution, job, commit }),
        signal: () => job.signal,
        isAborted: () => job.isAborted(),
        news: job.news,
        elsewhere: (change) => {
          job.elsewhere = (job.elsewhere ?? 0) + change;
        },
      },
      { execution, program: definition, input, steps },
    );
    return settle(job, state, commit, await interpret(state));
  }

  async function settle(job: JobRun, state: Run, commit: Commit, outcome: Outcome): Promise<Fate> {
    const { execution, spent, unsaved: steps, response } = state;
    const { started_at } = execution;
    if (outcome.kind === "lost") return settled;
    const saving = { lease: job.lease, id: execution.id, started_at, spent, steps, response };
    if (outcome.kind === "suspended") {
      const { at, reason } = outcome;
      let due: number | undefined;
      await commit(stepEvents(execution, steps), async (outbox) => {
        due = await store.suspend({ ...saving, at, now: clock.now(), reason, outbox });
        return due !== undefined;
      });
      if (due === undefined) return settled;
      // Woken while it ran: the sweep would find it, a moment later.
      if (due < at) await runner.wake(execution.id);
      return settledUntil(due);
    }
    const { end, events } = conclude(state, outcome, clock.now());
    const next = outcome.kind === "failed" ? await deps.afterFailure(execution, outcome.error) : undefined;
    const placements = next ? [next.placement] : [];
    await withPlacements(runner, placements, () =>
      commit(events, (outbox) =>
        store.finish({
          ...end,
          id: execution.id,
          workflow_id: execution.workflow_id,
          parent_id: execution.parent_id,
          lease: job.lease,
          outbox,
          ...(next ? { next: next.queued } : {}),
        }),
      ),
    );
    deps.ended(execution.id);
    if (state.hasLoose) await deps.cancelWaitedFor(execution.id);
    if (execution.parent_waits) await runner.wake(execution.parent_id!);
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
    const next = await deps.afterFailure(execution, error);
    const end = { id: ref, state: "failed" as const, error: JSON.stringify(error), ended_at: at };
    await withPlacements(runner, next ? [next.placement] : [], () =>
      withOutbox(deps, execution, [ended], execution.hop, (outbox) =>
        store.stop({ ...end, outbox, ...(next ? { next: next.queued } : {}) }),
      ),
    );
    deps.ended(ref);
    deps.changed(ref);
    await deps.cancelWaitedFor(ref);
  }

  return defineJob({
    kind: "execution.run",
    lane: "runs",
    per_key: runsAtOnce,
    crash_limit: 3,
    run,
    dead,
  });
}

/**
 * Lists that run beside each other commit beside each other, but each hands its commit over after those that
 * were asked for before: what a later one counts is never on disk without the steps it counts.
 */
function inOrder(commit: Commit): Commit {
  let handedOver: Promise<void> = Promise.resolve();
  return async (list, store) => {
    const earlier = handedOver;
    let next = () => {};
    handedOver = new Promise((resolve) => {
      next = resolve;
    });
    await earlier;
    try {
      return await commit(list, (outbox) => {
        const storing = store(outbox);
        next();
        return storing;
      });
    } finally {
      next();
    }
  };
}
