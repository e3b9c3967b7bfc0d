import { CUT, type Ended, LOST, type Place, type Run } from "./run.ts";

/**
 * Runs `total` lists, at most `limit` of them under way at once; one that waits keeps its place, and is
 * taken up again while others still run when its time comes, or when anything that the run waits for has. `judge` hears how each ended (value or
 * failed) and may answer what all of it comes to: then the others are aborted.
 *
 * Undefined: all have ended. Suspended: those that are left wait for a later time.
 */
export async function runPool(
  run: Run,
  place: Place,
  work: {
    total: number;
    limit: number;
    each(index: number, signal: AbortSignal): Promise<Ended>;
    judge(index: number, ended: Extract<Ended, { kind: "value" | "failed" }>): Ended | undefined;
  },
): Promise<Ended | undefined> {
  const cut = new AbortController();
  const cutAll = () => cut.abort();
  place.signal?.addEventListener("abort", cutAll, { once: true });
  const active = new Map<number, Promise<void>>();
  const parked = new Map<number, Extract<Ended, { kind: "suspended" }> & { heard: number }>();
  let next = 0;
  let verdict: Ended | undefined;
  let thrown: unknown;

  const decide = (ended: Ended | undefined) => {
    if (!ended || verdict) return;
    verdict = ended;
    run.hasLoose = true;
    cut.abort();
  };
  const begin = (index: number) => {
    const heard = run.news.count();
    const ending = work.each(index, cut.signal).then(
      (ended) => {
        active.delete(index);
        if (ended.kind === "suspended") parked.set(index, { ...ended, heard });
        else decide(ended.kind === "value" || ended.kind === "failed" ? work.judge(index, ended) : ended);
      },
      (error) => {
        active.delete(index);
        thrown ??= error;
        decide(LOST);
      },
    );
    active.set(index, ending);
  };

  try {
    for (;;) {
      if (!verdict && place.signal?.aborted) decide(CUT);
      if (!verdict) {
        const now = run.clock.now();
        for (const [index, { at, heard }] of parked) {
          if (at > now && heard === run.news.count()) continue;
          parked.delete(index);
          begin(index);
        }
        while (active.size + parked.size < work.limit && next < work.total) begin(next++);
      }
      if (active.size === 0) break;
      await someEnd(run, [...active.values()], earliest(parked));
    }
  } finally {
    place.signal?.removeEventListener("abort", cutAll);
  }
  if (thrown) throw thrown;
  if (verdict || parked.size === 0) return verdict;
  const [first] = [...parked.values()].sort((a, b) => a.at - b.at);
  return first && { kind: "suspended", at: first.at, reason: first.reason };
}

const earliest = (parked: Map<number, { at: number }>): number | undefined =>
  parked.size === 0 ? undefined : Math.min(...[...parked.values()].map(({ at }) => at));

// No timer is longer than a day; whoever waits for longer looks again then.
const LONGEST_LOOK_MS = 86_400_000;

async function someEnd({ clock, news }: Run, active: Promise<void>[], at: number | undefined): Promise<void> {
  if (at === undefined) return Promise.race(active);
  let cancel = () => {};
  let stop = () => {};
  const due = new Promise<void>((resolve) => {
    cancel = clock.after(Math.min(Math.max(0, at - clock.now()), LONGEST_LOOK_MS), resolve);
    stop = news.listen(resolve);
  });
  await Promise.race([...active, due]);
  cancel();
  stop();
}
