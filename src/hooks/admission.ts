import type { Limiter } from "../http/limiter.ts";
import type { Clock } from "../lib/clock.ts";
import { rateLimited, unauthorized } from "../lib/errors.ts";
import { useMarks } from "../lib/last-used.ts";
import { sha256Hex } from "../lib/secrets.ts";
import { credentialsOf } from "./credentials.ts";
import type { HookTokenRow, HookTokenStore, TargetType } from "./store.ts";
import { isHookToken } from "./token.ts";
import { type FindTarget, type HookTarget, tokenStatus } from "./tokens.ts";

export type Admission = ReturnType<typeof createAdmission>;

/** Who may pass an incoming webhook, and how often (interface 5.2). */
export function createAdmission(deps: {
  store: HookTokenStore;
  clock: Clock;
  /** Counts what each target starts. */
  limiter?: Limiter;
}) {
  const { store, clock, limiter } = deps;
  const markUse = useMarks((id, at) => store.used(id, at));

  /** The last of the tokens presented, when there is one and every one of them is live and `opens`. */
  async function authenticated(
    request: Request,
    opens: (row: HookTokenRow) => boolean,
  ): Promise<HookTokenRow> {
    const presented = credentialsOf(request.url, request.headers);
    const now = clock.now();
    let last: HookTokenRow | undefined;
    for (const token of presented) {
      const row = isHookToken(token) ? await store.byHash(sha256Hex(token)) : undefined;
      if (!row || tokenStatus(row, now) !== "active" || !opens(row)) throw refused();
      markUse(row.id, row.last_used_at, now);
      last = row;
    }
    if (!last) throw refused();
    return last;
  }

  return {
    /**
     * The target, when every token presented opens it. Nothing is asked about a target before a token of its
     * own was shown, so neither answer nor time tells an unknown target from a wrong token; tokens are found
     * by their digest, so the time of the look-up tells nothing of them either.
     */
    async target<T extends HookTarget>(
      type: TargetType,
      id: string,
      request: Request,
      find: FindTarget<T>,
    ): Promise<T> {
      await authenticated(request, (row) => row.target_id === id && row.target_type === type);
      const target = await find.target(id);
      if (!target) throw refused();
      return target;
    },

    /** The one target of all the tokens presented. */
    async ownTarget(request: Request): Promise<{ type: TargetType; id: string }> {
      let of: HookTokenRow | undefined;
      const { target_id, target_type } = await authenticated(request, (row) => {
        of ??= row;
        return row.target_id === of.target_id && row.target_type === of.target_type;
      });
      return { type: target_type, id: target_id };
    },

    /** Counts one start; throws `rate_limited` past the target's share. Only those with a token use it up. */
    count(target_id: string): void {
      const verdict = limiter?.take(target_id);
      if (verdict && !verdict.allowed) throw rateLimited(verdict.reset);
    },
  };
}

const refused = () => unauthorized("A valid webhook token is required.");
