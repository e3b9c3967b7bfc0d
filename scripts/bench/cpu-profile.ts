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

// What no script has called: sockets, HTTP, timers.
const LOOP = "event loop";

/** A profile and the two moments between which it counts, in ms since 1970. */
export type Window = { profile: CpuProfile; from: number; to: number };

/**
 * The functions that used the most of `used` microseconds by themselves, and the same by owner, most first. A function
 * is told with its file; what has none is the runtime's own code. Each sample counts the same: the time between two is
 * also what the thread waited, and it is told with whatever comes next.
 */
export function costs(windows: Window[], used: number) {
  const functions = new Map<string, Counted>();
  const owners = new Map<string, Counted>();
  let samples = 0;
  for (const { profile, from, to } of windows) {
    const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
    const uncalled = new Set(profile.nodes[0]?.children);
    let at = profile.startTime;
    for (const [n, id] of profile.samples.entries()) {
      at += profile.timeDeltas[n]!;
      if (at < from * 1_000 || at > to * 1_000) continue;
      samples++;
      const { functionName, url, lineNumber } = frames.get(id)!;
      const name = functionName || (url === "" && uncalled.has(id) ? LOOP : "(anonymous)");
      count(functions, name, placeOf(url, lineNumber));
      count(owners, ownerOf(url), "");
    }
  }
  const told = (of: Map<string, Counted>): Cost[] =>
    [...of.values()]
      .toSorted((a, b) => b.samples - a.samples)
      .map(({ what, where, samples: own }) => {
        const share = own / samples;
        return { what, where, us: share * used, share };
      });
  return { samples, functions: told(functions), owners: told(owners) };
}

type Counted = { what: string; where: string; samples: number };

function count(into: Map<string, Counted>, what: string, where: string): void {
  const key = `${what} ${where}`;
  const counted = into.get(key);
  if (counted) counted.samples++;
  else into.set(key, { what, where, samples: 1 });
}

const placeOf = (url: string, line: number): string =>
  url === "" ? RUNTIME : `${fileOf(url)}${line >= 0 ? `:${line + 1}` : ""}`;
