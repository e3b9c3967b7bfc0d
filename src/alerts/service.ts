import { defineJob, done, type JobKind, type JobRun, retry, settled } from "../jobs/job.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import type { Log } from "../lib/log.ts";
import { type Mail, MailError } from "../mail/mail.ts";
import { letterOf } from "./letter.ts";
import type { AlertRow, AlertStore, PreparedAlert } from "./store.ts";

const ALERT_JOB = "alert.send";
const MOST_LISTED = 100;
const MOST_TRIES = 8;
const FIRST_WAIT_MS = 60_000;
const LONGEST_WAIT_MS = 3_600_000;
// The job is in the attempt's commit or nowhere: so it is found when due, and never started from memory.
const SOON_MS = 1;

export type Alerts = ReturnType<typeof createAlerts>;

/**
 * Mails to the owner of a workspace when a delivery is given up (one an hour for a webhook), when a webhook
 * is paused by the service, and when it recovers (of what was not told within that hour, after it). Raised in the commit of the attempt that is the reason,
 * sent by a job: neither a crash nor a mail server that is away loses one. Where no mail can be sent, the
 * log has it.
 */
export function createAlerts(deps: {
  store: AlertStore;
  mail: Pick<Mail, "sendToOwner">;
  runner: Pick<Runner, "register" | "place" | "committed">;
  clock: Clock;
  log: Log;
  inScope: (caller: Caller, webhook_id: string) => Promise<unknown>;
}) {
  const { store, mail, runner, clock, log } = deps;
  // Webhooks that may be in trouble, so that a delivery that goes well need not ask.
  const troubled = new Set<string>();

  async function send(id: string, job: JobRun) {
    const alert = await store.get(id);
    if (alert?.state !== "pending") return done;
    const { lease, attempt } = job;
    const end = (state: AlertRow["state"], error: string | null) =>
      store.end({ lease, id, state, error, at: clock.now() });
    const letter = letterOf(alert);
    const about = { alert_id: id, webhook_id: alert.subscription_id, ...alert.details };
    if (attempt === 1) log.warn(letter.subject, about);
    try {
      const outcome = await mail.sendToOwner(alert.workspace_id, letter);
      await end(outcome === "sent" ? "sent" : "logged", outcome === "sent" ? null : outcome);
    } catch (error) {
      if (!(error instanceof MailError)) throw error;
      if (error.retryable && attempt < MOST_TRIES) {
        const wait = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), LONGEST_WAIT_MS);
        return retry(error.message, clock.now() + wait);
      }
      log.error("an alert could not be mailed", { alert_id: id, code: error.code, error: error.message });
      await end("failed", error.message);
    }
    return settled;
  }

  const job: JobKind = defineJob({ kind: ALERT_JOB, lane: "timers", per_key: 1, run: send });
  runner.register(job);

  return {
    /** Before the first delivery of this life is attempted. */
    async load(): Promise<void> {
      for (const id of await store.troubled()) troubled.add(id);
    },

    /** For the operation that records an attempt; undefined where there can be nothing to tell. */
    prepare(subscription_id: string, state: "success" | "retrying" | "failed"): PreparedAlert | undefined {
      if (state === "retrying" || (state === "success" && !troubled.has(subscription_id))) return undefined;
      const id = newId();
      const run_at = clock.now() + SOON_MS;
      // Whose workspace it is, the operation reads with the rest.
      const { row } = runner.place(ALERT_JOB, { tenant: "", key: subscription_id, ref: id, run_at });
      return { id, job: row };
    },

    /** The operation is committed, whether it raised the alert or not. */
    recorded(subscription_id: string, state: "success" | "retrying" | "failed", alert: PreparedAlert): void {
      if (state === "failed") troubled.add(subscription_id);
      // At worst it stays in the set, and its next success asks once more.
      else
        store.isTroubled(subscription_id).then(
          (still) => void (still || troubled.delete(subscription_id)),
          () => {},
        );
      runner.committed([{ row: alert.job }]);
    },

    /** The newest 100, newest first. */
    async list(caller: Caller, webhook_id: string) {
      await deps.inScope(caller, webhook_id);
      return { alerts: (await store.list(webhook_id, MOST_LISTED)).map(present) };
    },

    counts: store.counts,
    troubledCount: store.troubledCount,
  };
}

const present = ({ details, ...row }: AlertRow) => ({
  id: row.id,
  kind: row.kind,
  status: row.state,
  error: row.error,
  delivery_id: details.delivery_id,
  event_id: details.event_id,
  event: details.event,
  reason: details.reason,
  created_at: iso(row.created_at),
  ended_at: isoOrNull(row.ended_at),
});
