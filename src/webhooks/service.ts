import type { Egress } from "../egress/egress.ts";
import type { EventPattern } from "../events/kinds.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { type Fault, forbidden, invalid, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Vault } from "../lib/vault.ts";
import { type Authentication, doubleFaults, publicAuthentication } from "./authentication.ts";
import { RELEASE_JOB } from "./release.ts";
import {
  CreateWebhook,
  type ListWebhooks,
  LONGEST_NAME,
  type RotateSecret,
  UpdateWebhook,
  USUAL_OVERLAP_SECONDS,
  webhookFaults,
} from "./schema.ts";
import { openSubscription, sealText } from "./sealed.ts";
import { newSecret } from "./signature.ts";
import type { SubscriptionPatch, SubscriptionRow, SubscriptionStore } from "./store.ts";

/** Interface 2.5 and design 3; secrets are write-only, `headers` are told by name. */
export type Webhook = ReturnType<ReturnType<typeof presenter>>;

/** What a receiver verifies with; the previous secret signs as well until its time, then it is null. */
export type WebhookSecret = {
  secret: string;
  previous_secret: string | null;
  previous_secret_until: string | null;
};

export type Webhooks = ReturnType<typeof createWebhooks>;

/** The subscriptions of outgoing webhooks: whom to tell, of what, and how. Throws AppError. */
export function createWebhooks(deps: {
  store: SubscriptionStore;
  egress: Pick<Egress, "check">;
  vault: Vault;
  clock: Clock;
  runner: Pick<Runner, "place" | "committed">;
}) {
  const { store, egress, vault, clock, runner } = deps;
  const present = presenter(vault);

  async function inScope(caller: Caller, id: string): Promise<SubscriptionRow> {
    const row = isUuid(id) ? await store.get(id) : undefined;
    if (!row) throw notFound("webhook", id);
    if (row.project_id !== caller.project_id) throw forbidden("This key cannot reach that webhook.");
    return row;
  }

  async function change(id: string, patch: SubscriptionPatch): Promise<Webhook> {
    const row = await store.update(id, { ...patch, updated_at: clock.now() });
    if (!row) throw notFound("webhook", id);
    return present(row);
  }

  /** The same, and what waits is sent if the webhook is active by that. */
  async function changeAndRelease(row: SubscriptionRow, patch: SubscriptionPatch): Promise<Webhook> {
    const { id, workspace_id } = row;
    const job = { tenant: workspace_id, key: id, ref: id, waits: true };
    const placements = [runner.place(RELEASE_JOB, job)];
    const changed = await store.update(id, { ...patch, updated_at: clock.now() }, placements[0]!.row);
    if (!changed) throw notFound("webhook", id);
    runner.committed(placements);
    return present(changed);
  }

  function presentSecret(row: SubscriptionRow): WebhookSecret {
    const { secret, previous_secret } = openSubscription(vault, row);
    const until = row.previous_secret_until ?? 0;
    const overlaps = previous_secret !== undefined && until > clock.now();
    return {
      secret,
      previous_secret: overlaps ? previous_secret : null,
      previous_secret_until: overlaps ? iso(until) : null,
    };
  }

  /** Every fault there is, of shape and of sense; the sense of a field is looked at once its shape is right. */
  function check(
    schema: typeof CreateWebhook | typeof UpdateWebhook,
    body: UpdateWebhook,
    before?: SubscriptionRow,
  ): void {
    const faults: Fault[] = schema.faults(body);
    const misshapen = new Set(faults.map(({ field }) => field.split(".")[0]));
    if (!misshapen.has("")) {
      const rest = Object.entries(body).filter(([field]) => !misshapen.has(field));
      const sound = Object.fromEntries(rest) as UpdateWebhook;
      const url = sound.url === undefined ? undefined : egress.check(sound.url);
      faults.push(...(url ? [url] : []), ...webhookFaults(sound));
    }
    if (faults.length === 0 && (body.authentication || body.headers)) {
      const known = before && openSubscription(vault, before);
      const authentication = body.authentication === undefined ? known?.authentication : body.authentication;
      const headers = body.headers === undefined ? known?.headers : body.headers;
      faults.push(
        ...doubleFaults((authentication ?? undefined) as Authentication | undefined, headers ?? undefined),
      );
    }
    if (faults.length > 0) throw invalid(faults);
  }

  return {
    inScope,

    /** The answer alone carries `secret` unasked; `secret()` shows it again. */
    async create(caller: Caller, body: CreateWebhook): Promise<Webhook & { secret: string }> {
      check(CreateWebhook, body);
      const id = newId();
      const secret = newSecret();
      const row: SubscriptionRow = {
        id,
        workspace_id: caller.workspace_id,
        project_id: caller.project_id,
        name: body.name ?? new URL(body.url).host.slice(0, LONGEST_NAME),
        url: body.url,
        events: body.events as EventPattern[],
        status: "active",
        status_reason: null,
        secret: sealText(vault, id, "secret", secret),
        previous_secret: null,
        previous_secret_until: null,
        authentication: null,
        headers: null,
        retry_policy: null,
        conditions: null,
        filters: null,
        batch_settings: null,
        ordered: body.ordered ?? false,
        concurrency: null,
        rate_limit_per_second: null,
        failing_since: null,
        total_deliveries: 0,
        successful_deliveries: 0,
        failed_deliveries: 0,
        last_delivery_at: null,
        created_at: clock.now(),
        updated_at: null,
        ...patchOf(vault, id, body),
      };
      await store.create(row);
      return { ...present(row), secret };
    },

    async list(caller: Caller, { limit, offset }: ListWebhooks) {
      const { items, total } = await store.list(caller.project_id, { limit, offset });
      return { items: items.map(present), total, limit, offset };
    },

    async get(caller: Caller, id: string): Promise<Webhook> {
      return present(await inScope(caller, id));
    },

    /** Replaces the fields given; null clears an optional one. */
    async update(caller: Caller, id: string, body: UpdateWebhook): Promise<Webhook> {
      const row = await inScope(caller, id);
      check(UpdateWebhook, body, row);
      const patch = patchOf(vault, id, body);
      // Without an order nobody waits for a turn.
      return patch.ordered === false ? changeAndRelease(row, patch) : change(id, patch);
    },

    async remove(caller: Caller, id: string): Promise<void> {
      await inScope(caller, id);
      if (!(await store.remove(id))) throw notFound("webhook", id);
    },

    async secret(caller: Caller, id: string): Promise<WebhookSecret> {
      return presentSecret(await inScope(caller, id));
    },

    /**
     * A new secret signs from the next attempt on; the old one signs beside it for `overlap_seconds`, so that
     * receivers have that long to learn the new one. 0 ends the old one at once.
     */
    async rotateSecret(
      caller: Caller,
      id: string,
      { overlap_seconds }: Partial<RotateSecret> = {},
    ): Promise<WebhookSecret> {
      await inScope(caller, id);
      const at = clock.now();
      const row = await store.rotate(id, {
        secret: sealText(vault, id, "secret", newSecret()),
        previous_until: at + (overlap_seconds ?? USUAL_OVERLAP_SECONDS) * 1_000,
        at,
      });
      if (!row) throw notFound("webhook", id);
      return presentSecret(row);
    },

    /** Events are kept for it, and nothing is sent. */
    async pause(caller: Caller, id: string): Promise<Webhook> {
      const row = await inScope(caller, id);
      if (row.status === "paused") return present(row); // the first reason stands
      return change(id, { status: "paused", status_reason: "paused by a key holder" });
    },

    /** What was kept meanwhile is sent, oldest first. */
    async resume(caller: Caller, id: string): Promise<Webhook> {
      const row = await inScope(caller, id);
      if (row.status === "active") return present(row);
      return changeAndRelease(row, { status: "active", status_reason: null });
    },
  };
}

/** The columns a body sets; what it does not name stays as it is. */
function patchOf(vault: Vault, id: string, body: UpdateWebhook): SubscriptionPatch {
  const patch: SubscriptionPatch = {};
  if (body.name !== undefined) patch.name = body.name;
  if (body.url !== undefined) patch.url = body.url;
  if (body.events !== undefined) patch.events = body.events as EventPattern[];
  for (const field of ["authentication", "headers"] as const) {
    const value = body[field];
    if (value !== undefined) patch[field] = value && sealText(vault, id, field, JSON.stringify(value));
  }
  if (body.retry_policy !== undefined) patch.retry_policy = body.retry_policy;
  if (body.conditions !== undefined) patch.conditions = body.conditions as JsonObject | null;
  if (body.filters !== undefined) patch.filters = body.filters;
  if (body.batch_settings !== undefined) patch.batch_settings = body.batch_settings;
  if (body.ordered !== undefined) patch.ordered = body.ordered;
  if (body.concurrency !== undefined) patch.concurrency = body.concurrency;
  if (body.rate_limit_per_second !== undefined) patch.rate_limit_per_second = body.rate_limit_per_second;
  return patch;
}

const presenter = (vault: Vault) => (row: SubscriptionRow) => {
  const { authentication, headers } = openSubscription(vault, row);
  return {
    id: row.id,
    workspace_id: row.workspace_id,
    project_id: row.project_id,
    name: row.name,
    url: row.url,
    events: row.events,
    status: row.status,
    status_reason: row.status_reason,
    authentication: publicAuthentication(authentication),
    header_names: Object.keys(headers ?? {}),
    retry_policy: row.retry_policy,
    conditions: row.conditions,
    filters: row.filters,
    batch_settings: row.batch_settings,
    ordered: row.ordered,
    concurrency: row.concurrency,
    rate_limit_per_second: row.rate_limit_per_second,
    failing_since: isoOrNull(row.failing_since),
    created_at: iso(row.created_at),
    updated_at: isoOrNull(row.updated_at),
    last_delivery: isoOrNull(row.last_delivery_at),
    delivery_stats: {
      total_deliveries: row.total_deliveries,
      successful_deliveries: row.successful_deliveries,
      failed_deliveries: row.failed_deliveries,
    },
  };
};
