import { count, eq, sql } from "drizzle-orm";
import type { JobRow } from "../../jobs/job.ts";
import type { SubscriptionPatch, SubscriptionRow, SubscriptionStore } from "../../webhooks/store.ts";
import type { Connection } from "./connection.ts";
import { insertJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";
import { subscriptions } from "./tables.ts";

type Stored = typeof subscriptions.$inferSelect;

export const subscriptionWrites = {
  "subscriptions.create": (db: Connection, subscription: SubscriptionRow): void => {
    db.orm
      .insert(subscriptions)
      .values(subscription as Stored)
      .run();
  },
  "subscriptions.update": (
    db: Connection,
    { id, patch, release }: { id: string; patch: SubscriptionPatch; release?: JobRow },
  ): SubscriptionRow | undefined => {
    // A line begins and ends with the order, and then nobody stands at its head; one that goes on keeps it.
    const { ordered, line_head } = subscriptions;
    const line =
      patch.ordered === undefined
        ? {}
        : { line_head: sql`CASE WHEN ${ordered} = ${patch.ordered ? 1 : 0} THEN ${line_head} END` };
    const resumes = patch.status === "active" ? { failing_since: null } : {};
    const row = db.orm
      .update(subscriptions)
      .set({ ...patch, ...line, ...resumes } as Partial<Stored>)
      .where(eq(subscriptions.id, id))
      .returning()
      .get() as SubscriptionRow | undefined;
    if (row?.status === "active" && release) insertJob(db, release);
    return row;
  },
  "subscriptions.rotate": (
    db: Connection,
    { id, secret, previous_until, at }: { id: string; secret: string; previous_until: number; at: number },
  ): SubscriptionRow | undefined =>
    db.orm
      .update(subscriptions)
      .set({
        previous_secret: sql`${subscriptions.secret}`,
        previous_secret_until: previous_until,
        secret,
        updated_at: at,
      })
      .where(eq(subscriptions.id, id))
      .returning()
      .get() as SubscriptionRow | undefined,
  "subscriptions.remove": (db: Connection, id: string): boolean => {
    db.run("DELETE FROM troubles WHERE subscription_id = ?", id);
    return db.run("DELETE FROM subscriptions WHERE id = ?", id) > 0;
  },
};

export const sqliteSubscriptions = ({ reader, writer }: Storage): SubscriptionStore => ({
  create: (subscription) => writer.submit("subscriptions.create", subscription),
  get: async (id) =>
    reader.orm.select().from(subscriptions).where(eq(subscriptions.id, id)).get() as
      | SubscriptionRow
      | undefined,
  list: async (project_id, { limit, offset }) => {
    const ours = eq(subscriptions.project_id, project_id);
    const items = reader.orm
      .select()
      .from(subscriptions)
      .where(ours)
      .orderBy(subscriptions.id)
      .limit(limit)
      .offset(offset)
      .all() as SubscriptionRow[];
    const total = reader.orm.select({ total: count() }).from(subscriptions).where(ours).get()?.total ?? 0;
    return { items, total };
  },
  update: (id, patch, release) => writer.submit("subscriptions.update", { id, patch, release }),
  rotate: (id, next) => writer.submit("subscriptions.rotate", { id, ...next }),
  remove: (id) => writer.submit("subscriptions.remove", id),
});
