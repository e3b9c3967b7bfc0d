import { and, asc, count, eq } from "drizzle-orm";
import type {
  TriggerEventRow,
  TriggerEventStanding,
  TriggerRow,
  TriggerStore,
} from "../../triggers/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";
import { triggers } from "./tables.ts";

const row = (found: typeof triggers.$inferSelect) => found as TriggerRow;

/** For use inside the operation that deletes the agent; the events are forgotten by their age. */
export function deleteTriggersOf(db: Connection, agent_id: string): void {
  db.run("DELETE FROM triggers WHERE agent_id = ?", agent_id);
}

/** For use inside the operation that begins its turn. */
export function insertTriggerEvent(db: Connection, event: TriggerEventRow): void {
  db.run(
    `INSERT INTO trigger_events (id, trigger_id, agent_id, state, request, response, error, turn_id, conversation_id,
       redelivery_of, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    event.id,
    event.trigger_id,
    event.agent_id,
    event.state,
    JSON.stringify(event.request),
    JSON.stringify(event.response),
    event.error && JSON.stringify(event.error),
    event.turn_id,
    event.conversation_id,
    event.redelivery_of,
    event.created_at,
  );
}

function note(db: Connection, { event, most }: { event: TriggerEventRow; most: number }): void {
  // A late note on a deleted trigger would stay for good where history is kept for good.
  if (!db.get("SELECT 1 FROM triggers WHERE id = ?", event.trigger_id)) return;
  insertTriggerEvent(db, event);
  if (event.state === "ignored") return;
  db.run(
    `DELETE FROM trigger_events WHERE id IN
       (SELECT id FROM trigger_events WHERE trigger_id = ? AND state IN ('rejected', 'refused')
        ORDER BY id DESC LIMIT 50 OFFSET ?)`,
    event.trigger_id,
    most,
  );
}

export const triggerWrites = {
  "triggers.create": (db: Connection, trigger: TriggerRow): boolean => {
    if (!db.get("SELECT 1 FROM agents WHERE id = ?", trigger.agent_id)) return false;
    db.orm.insert(triggers).values(trigger).run();
    return true;
  },
  "triggers.update": (db: Connection, { id, version, ...values }: TriggerRow): TriggerRow | undefined => {
    const before = and(eq(triggers.id, id), eq(triggers.version, version - 1));
    const updated = db.orm
      .update(triggers)
      .set({ ...values, version })
      .where(before)
      .returning()
      .get();
    return updated && row(updated);
  },
  "triggers.remove": (db: Connection, id: string): boolean =>
    db.run("DELETE FROM triggers WHERE id = ?", id) === 1,
  "triggers.note": note,
  "triggers.forget": (db: Connection, { trigger_id, limit }: { trigger_id: string; limit: number }): number =>
    db.run(
      "DELETE FROM trigger_events WHERE id IN (SELECT id FROM trigger_events WHERE trigger_id = ? LIMIT ?)",
      trigger_id,
      limit,
    ),
};

type Stored = Omit<TriggerRow, "auth" | "is_active"> & { auth: string; is_active: number };
type StoredEvent = Omit<TriggerEventStanding, "request" | "response" | "error"> & {
  request: string;
  response: string;
  error: string | null;
};

const parsed = (found: Stored | undefined): TriggerRow | undefined =>
  found && { ...found, auth: JSON.parse(found.auth), is_active: found.is_active === 1 };

const parsedEvent = (found: StoredEvent): TriggerEventStanding => ({
  ...found,
  request: JSON.parse(found.request),
  response: JSON.parse(found.response),
  error: found.error === null ? null : JSON.parse(found.error),
});

const STANDING = `SELECT e.*, t.state AS turn_state, t.error AS turn_error, t.ended_at AS turn_ended_at
  FROM trigger_events e LEFT JOIN turns t ON t.id = e.turn_id`;

const OPEN = "('queued', 'running', 'waiting')";
const turnIs = (states: string) =>
  `EXISTS (SELECT 1 FROM turns WHERE turns.id = trigger_events.turn_id AND turns.state ${states})`;
const HAS_STATUS: Record<string, string> = {
  accepted: `AND state = 'accepted' AND ${turnIs(`IN ${OPEN}`)}`,
  rejected: "AND state IN ('rejected', 'refused')",
  completed: `AND (state = 'ignored' OR state = 'accepted' AND ${turnIs("= 'success'")})`,
  failed: `AND state = 'accepted' AND ${turnIs(`NOT IN ${OPEN} AND turns.state <> 'success'`)}`,
};

export const sqliteTriggers = ({ reader, writer }: Storage): TriggerStore => ({
  create: (trigger) => writer.submit("triggers.create", trigger),
  update: (trigger) => writer.submit("triggers.update", trigger),
  remove: (id) => writer.submit("triggers.remove", id),
  get: async (id) => parsed(reader.get<Stored>("SELECT * FROM triggers WHERE id = ?", id)),
  byPath: async (path) => parsed(reader.get<Stored>("SELECT * FROM triggers WHERE path = ?", path)),
  async list(of, { limit, offset }) {
    const which =
      "agent_id" in of ? eq(triggers.agent_id, of.agent_id) : eq(triggers.project_id, of.project_id);
    const items = reader.orm.select().from(triggers).where(which).orderBy(asc(triggers.id));
    return {
      items: items.limit(limit).offset(offset).all().map(row),
      total: reader.orm.select({ n: count() }).from(triggers).where(which).get()!.n,
    };
  },
  note: (event, most) => writer.submit("triggers.note", { event, most }, "lazy"),
  async events(trigger_id, { limit, offset, status }) {
    const which = `trigger_id = ? ${HAS_STATUS[status ?? ""] ?? ""}`;
    // The page is found in an index; only its rows are read.
    const items = reader.all<StoredEvent>(
      `${STANDING} WHERE e.id IN (SELECT id FROM trigger_events WHERE ${which} ORDER BY id DESC LIMIT ? OFFSET ?)
       ORDER BY e.id DESC`,
      trigger_id,
      limit,
      offset,
    );
    const total = reader.get<{ n: number }>(
      `SELECT count(*) AS n FROM trigger_events WHERE ${which}`,
      trigger_id,
    );
    return { items: items.map(parsedEvent), total: total!.n };
  },
  async event(id) {
    const found = reader.get<StoredEvent>(`${STANDING} WHERE e.id = ?`, id);
    return found && parsedEvent(found);
  },
  forget: (trigger_id, limit) => writer.submit("triggers.forget", { trigger_id, limit }, "lazy"),
});
