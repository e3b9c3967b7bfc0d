import type { JobRun } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { randomText } from "../lib/secrets.ts";
import type { Vault } from "../lib/vault.ts";
import type { Commit } from "./jobs.ts";
import type { Callback, Links } from "./run.ts";
import type { Starts } from "./start.ts";
import type { ExecutionRow, ExecutionStore, WaitRow } from "./store.ts";

const TOKEN_LETTERS = 43; // 62^43 > 2^256

/** What a run has to do with other runs and with callers: see `Links`. */
export function createLinks(deps: {
  store: ExecutionStore;
  starts: Starts;
  clock: Clock;
  vault: Pick<Vault, "seal" | "open">;
  /** Where callers from outside reach this server. */
  baseUrl(): string;
}) {
  const { store, starts, clock, vault } = deps;

  const shown = ({ id, token, signal }: WaitRow): Callback => ({
    id,
    url: `${deps.baseUrl()}/webhooks/waits/${id}?token=${vault.open(token, placeOf(id))}`,
    ...(signal === null ? {} : { signal: { body: JSON.parse(signal) } }),
  });

  return ({
    execution,
    job,
    commit,
  }: {
    execution: ExecutionRow & { started_at: number };
    job: JobRun;
    commit: Commit;
  }): Links => ({
    execution_id: execution.id,
    call: (request) =>
      persist(
        clock,
        () => job.isAborted(),
        () => starts.startChild(execution, request),
      ),
    child: (key) => store.child(execution.id, key),
    async openWait(step, around) {
      const id = newId();
      const wait: WaitRow = {
        id,
        execution_id: execution.id,
        position: step.position,
        token: vault.seal(randomText(TOKEN_LETTERS), placeOf(id)),
        signal: null,
        signalled_at: null,
        created_at: clock.now(),
      };
      let opened: WaitRow | undefined;
      await commit([], async (outbox) => {
        const { lease } = job;
        const { started_at } = execution;
        opened = await store.openWait({ lease, wait, steps: [...around, step], started_at, outbox });
        return opened !== undefined;
      });
      return opened && shown(opened);
    },
    async callback(position) {
      const row = await store.waitOf(execution.id, position);
      return row && shown(row);
    },
  });
}

export const placeOf = (wait_id: string): string => `waits.token:${wait_id}`;
