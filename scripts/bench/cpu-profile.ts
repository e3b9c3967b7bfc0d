/** Reads a CPU profile as the runtime writes it: what the code itself used, by function and by whose code it is. */

/** Times in microseconds, `startTime` and `endTime` since 1970. */
export type CpuProfile = {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: number[];
  }[];
  startTime: number;
  endTime: number;
  samples: number[];
  timeDeltas: number[];
};

export type Cost = { what: string; where: string; us: number; share: number };

const RUNTIME = "runtime (native)";

/** `src/http` for a file of ours, the package for one of others, else the runtime. */
export function ownerOf(url: string): string {
  const inPackage = /(?:.*\/|^)node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url);
  if (inPackage) return inPackage[1]!;
  const ours = /(?:^|\/)(src\/[^/]+)\//.exec(url);
  if (ours) return ours[1]!;
  if (/(?:^|\/)src\/[^/]+$/.test(url)) return "src";
  if (/^(bun|node|internal):/.test(url)) return `runtime (${url})`;
  return url.includes("$bunfs") ? "modules as they are loaded" : RUNTIME;
}

const fileOf = (url: string): string =>
  url.replace(/^(?:.*\/)?(?:node_modules|\$bunfs\/root)\//, "").replace(/^.*\/(?=src\/)/, "");

// What no script has called: sockets, HTTP, timers, and waiting for any of them.
const LOOP = "event loop";

/** A profile and the two moments between which it counts, in ms since 1970. */
export type Window = { profile: CpuProfile; from: number; to: number };

/**
 * The functions that used the most by themselves, and the same by owner, most first. A function is told with its
 * file; what has none is the runtime's own code.
 */
export function costs(windows: Window[]) {
  const functions = new Map<string, Cost>();
  const owners = new Map<string, Cost>();
  let us = 0;
  for (const { profile, from, to } of windows) {
    const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
    const uncalled = new Set(profile.nodes[0]?.children);
    let at = profile.startTime;
    for (const [n, id] of profile.samples.entries()) {
      const spent = profile.timeDeltas[n]!;
      at += spent;
      if (at < from * 1_000 || at > to * 1_000) continue;
      us += spent;
      const { functionName, url, lineNumber } = frames.get(id)!;
      const name = functionName || (url === "" && uncalled.has(id) ? LOOP : "(anonymous)");
      add(functions, name, placeOf(url, lineNumber), spent);
      add(owners, ownerOf(url), "", spent);
    }
  }
  const sorted = (of: Map<string, Cost>) =>
    [...of.values()]
      .map((cost) => ({ ...cost, share: us > 0 ? cost.us / us : 0 }))
      .toSorted((a, b) => b.us - a.us);
  return { us, functions: sorted(functions), owners: sorted(owners) };
}

/** Without what the event loop waited: the thread used so many microseconds only. */
export function withoutWaits(sums: ReturnType<typeof costs>, used: number): ReturnType<typeof costs> {
  const waited = Math.max(0, sums.us - used);
  const less = (list: Cost[], what: string) =>
    list
      .map((cost) => (cost.what === what ? { ...cost, us: Math.max(0, cost.us - waited) } : cost))
      .map((cost) => ({ ...cost, share: cost.us / (sums.us - waited) }))
      .toSorted((a, b) => b.us - a.us);
  return {
    us: sums.us - waited,
    functions: less(sums.functions, LOOP),
    owners: less(sums.owners, RUNTIME),
  };
}

function add(into: Map<string, Cost>, what: string, where: string, us: number): void {
  const key = `${what} ${where}`;
  const cost = into.get(key) ?? { what, where, us: 0, share: 0 };
  cost.us += us;
  into.set(key, cost);
}

const placeOf = (url: string, line: number): string =>
  url === "" ? RUNTIME : `${fileOf(url)}${line >= 0 ? `:${line + 1}` : ""}`;
