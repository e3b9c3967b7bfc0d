import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { conflict, forbidden, invalidField, notFound } from "../lib/errors.ts";
import { parseExpiry } from "../lib/expiry.ts";
import { isUuid, newId } from "../lib/ids.ts";
import { useMarks } from "../lib/last-used.ts";
import { sameSecret, sha256Hex } from "../lib/secrets.ts";
import type { Workspaces } from "../workspaces/service.ts";
import type { Caller, CreateKey, KeyRecord, ListKeys, NewKey, RotateKey } from "./schema.ts";
import { checkScope } from "./scope.ts";
import type { KeyFilter, KeyRow, KeyStore } from "./store.ts";
import { makeKey, parseKey, prefixOf } from "./token.ts";

export type Keys = ReturnType<typeof createKeys>;

const LONGEST_NAME = 200;
const USUAL_OVERLAP_SECONDS = 86_400;
// What an unknown public id is compared with, so that it takes the work of a known one.
const NO_SECRET = sha256Hex("no key has this secret");

export type IssueKey = { name: string; workspace_id: string; project_id: string; expires_at?: string | null };

export function createKeys({
  store,
  workspaces,
  clock,
}: {
  store: KeyStore;
  workspaces: Workspaces;
  clock: Clock;
}) {
  const markUse = useMarks((id, at) => store.used(id, at));

  function build(
    owner: { name: string; workspace_id: string; project_id: string },
    expires_at: number | null,
  ) {
    const { key, public_id, secret } = makeKey();
    const row: KeyRow = {
      id: newId(),
      workspace_id: owner.workspace_id,
      project_id: owner.project_id,
      name: owner.name,
      public_id,
      secret_hash: sha256Hex(secret),
      last_four: key.slice(-4),
      created_at: clock.now(),
      expires_at,
      revoked_at: null,
      last_used_at: null,
    };
    return { row, key };
  }

  async function issue({ expires_at, ...owner }: IssueKey): Promise<NewKey> {
    if (owner.name.trim() === "" || owner.name.length > LONGEST_NAME) {
      throw invalidField("name", `1 to ${LONGEST_NAME} characters`, `${owner.name.length} characters`);
    }
    const project = await workspaces.getProject(owner.project_id);
    if (project.workspace_id !== owner.workspace_id) throw notFound("project", owner.project_id);
    const { row, key } = build(owner, parseExpiry(expires_at, clock.now()));
    await store.create(row);
    return { ...present(row), key };
  }

  async function find(id: string): Promise<KeyRow> {
    const key = isUuid(id) ? await store.get(id) : undefined;
    if (!key) throw notFound("key", id);
    return key;
  }

  async function inWorkspace(caller: Caller, id: string): Promise<KeyRow> {
    const key = await find(id);
    if (key.workspace_id !== caller.workspace_id) throw forbidden("This key cannot reach that key.");
    return key;
  }

  // A new secret for another project's key would open that project, and revoking it would close it.
  async function inProject(caller: Caller, id: string): Promise<KeyRow> {
    const key = await inWorkspace(caller, id);
    if (key.project_id !== caller.project_id) throw forbidden("This key cannot reach that key.");
    return key;
  }

  async function rotate(
    old: KeyRow,
    { overlap_seconds = USUAL_OVERLAP_SECONDS }: RotateKey,
  ): Promise<NewKey> {
    const now = clock.now();
    if (statusOf(old, now) !== "active") throw conflict("This key has ended already; create another.");
    // A key made for a time is followed by one for as long, never by one for ever.
    const lifetime = old.expires_at === null ? null : old.expires_at - old.created_at;
    const { row, key } = build(old, lifetime === null ? null : now + lifetime);
    const ends = Math.min(old.expires_at ?? Number.POSITIVE_INFINITY, now + overlap_seconds * 1_000);
    const rotated = await store.rotate({ id: old.id, expires_at: ends }, row);
    if (!rotated) throw conflict("This key has ended already; create another.");
    return { ...present(row), key };
  }

  async function revoke(id: string): Promise<void> {
    if (!(await store.revoke(id, clock.now()))) throw notFound("key", id);
  }

  function present(row: KeyRow): KeyRecord {
    return {
      id: row.id,
      name: row.name,
      workspace_id: row.workspace_id,
      project_id: row.project_id,
      prefix: prefixOf(row.public_id),
      last_four: row.last_four,
      status: statusOf(row, clock.now()),
      created_at: iso(row.created_at),
      expires_at: isoOrNull(row.expires_at),
      revoked_at: isoOrNull(row.revoked_at),
      last_used_at: isoOrNull(row.last_used_at),
    };
  }

  return {
    /** Whom the key speaks for; undefined when it is malformed, unknown, expired or revoked. */
    async authenticate(token: string): Promise<Caller | undefined> {
      const given = parseKey(token);
      if (!given) return undefined;
      const key = await store.byPublicId(given.public_id);
      const same = sameSecret(sha256Hex(given.secret), key?.secret_hash ?? NO_SECRET);
      const now = clock.now();
      if (!key || !same || statusOf(key, now) !== "active") return undefined;
      markUse(key.id, key.last_used_at, now);
      return { key_id: key.id, workspace_id: key.workspace_id, project_id: key.project_id };
    },

    /** What the calling key is and where it belongs. */
    async me(caller: Caller) {
      const key = present(await find(caller.key_id));
      const workspace = await workspaces.get(key.workspace_id);
      const project = await workspaces.getProject(key.project_id);
      return {
        key_id: key.id,
        name: key.name,
        workspace: { id: workspace.id, name: workspace.name },
        project: { id: project.id, name: project.name },
        prefix: key.prefix,
        last_four: key.last_four,
        created_at: key.created_at,
        expires_at: key.expires_at,
        last_used_at: key.last_used_at,
      };
    },

    /** The keys of the caller's workspace, oldest first, without their secrets. */
    async list(caller: Caller, { limit, offset, ...named }: ListKeys) {
      checkScope(caller, named);
      const filter = { workspace_id: caller.workspace_id, project_id: named.project_id };
      const [rows, total] = [await store.list(filter, { limit, offset }), await store.count(filter)];
      return { items: rows.map(present), total, limit, offset };
    },

    get: async (caller: Caller, id: string): Promise<KeyRecord> => present(await inWorkspace(caller, id)),

    /** A key for the caller's own project. The answer is the only place that ever shows it. */
    async create(caller: Caller, { name, expires_at, ...named }: CreateKey): Promise<NewKey> {
      checkScope(caller, named);
      const own = await find(caller.key_id);
      const ends = parseExpiry(expires_at, clock.now());
      // Else a key for a day would be a key for ever.
      if (own.expires_at !== null && (ends ?? Number.POSITIVE_INFINITY) > own.expires_at) {
        throw invalidField("expires_at", `no later than ${iso(own.expires_at)}`, expires_at ?? "never");
      }
      return issue({ name, expires_at, workspace_id: caller.workspace_id, project_id: caller.project_id });
    },

    /** A successor with a key of its own; the old one works on for `overlap_seconds`. */
    async rotate(caller: Caller, id: string, request: RotateKey): Promise<NewKey> {
      const old = await inProject(caller, id);
      const own = await find(caller.key_id);
      // Its own successor lasts as long as it did; another's could make a key for a day one for ever.
      if (own.expires_at !== null && old.id !== own.id) {
        throw forbidden("A key that ends can rotate itself alone.");
      }
      return rotate(old, request);
    },

    /** From the next request on the key opens nothing. A key may revoke itself. */
    async revoke(caller: Caller, id: string): Promise<void> {
      await revoke((await inProject(caller, id)).id);
    },

    /** The same verbs for whoever holds the data folder: the command line. */
    admin: {
      create: issue,
      list: async (filter: KeyFilter = {}): Promise<KeyRecord[]> => (await store.list(filter)).map(present),
      get: async (id: string): Promise<KeyRecord> => present(await find(id)),
      rotate: async (id: string, request: RotateKey = {}): Promise<NewKey> => rotate(await find(id), request),
      revoke,

      /**
       * Issues a key for a moment: `endLent` leaves nothing of it. Where the program dies before, the key ends by
       * itself after `for_ms`, and the next one of its name and project clears it away.
       */
      async lend({ for_ms, ...owner }: Omit<IssueKey, "expires_at"> & { for_ms: number }) {
        const { project_id, name } = owner;
        for (const key of await store.list({ project_id }))
          if (key.name === name && statusOf(key, clock.now()) !== "active") await store.remove(key.id);
        return issue({ ...owner, expires_at: iso(clock.now() + for_ms) });
      },
      endLent: (id: string): Promise<void> => store.remove(id),
    },
  };
}

function statusOf(key: KeyRow, now: number): KeyRecord["status"] {
  if (key.revoked_at !== null) return "revoked";
  return key.expires_at !== null && key.expires_at <= now ? "expired" : "active";
}
