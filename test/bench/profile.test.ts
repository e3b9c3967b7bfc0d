import { expect, test } from "bun:test";
import { costs, ownerOf, withoutWaits } from "../../scripts/bench/cpu-profile.ts";
import { residentOf, threads } from "../../scripts/bench/resident.ts";

const frame = (id: number, functionName: string, url: string, lineNumber = -1) => ({
  id,
  callFrame: { functionName, url, lineNumber },
});

test("a profile tells what functions used by themselves within a window, and whose they are", () => {
  const profile = {
    nodes: [
      frame(1, "run", ""),
      frame(2, "handle", "/build/src/http/gate.ts", 9),
      frame(3, "", "/build/node_modules/@scope/thing/dist/index.mjs", 4),
      // The same function, called from elsewhere.
      frame(4, "handle", "/build/src/http/gate.ts", 9),
    ],
    startTime: 1_000_000,
    endTime: 1_001_000,
    samples: [1, 2, 3, 4, 1],
    timeDeltas: [100, 200, 300, 200, 200],
  };
  const { us, functions, owners } = costs([{ profile, from: 1_000.2, to: 1_000.9 }]);
  expect(us).toBe(700);
  expect(functions.map(({ what, where, us }) => ({ what, where, us }))).toEqual([
    { what: "handle", where: "src/http/gate.ts:10", us: 400 },
    { what: "(anonymous)", where: "@scope/thing/dist/index.mjs:5", us: 300 },
  ]);
  expect(owners.map(({ what, share }) => ({ what, share: Math.round(share * 100) }))).toEqual([
    { what: "src/http", share: 57 },
    { what: "@scope/thing", share: 43 },
  ]);
  expect(costs([{ profile, from: 0, to: 1 }])).toEqual({ us: 0, functions: [], owners: [] });
});

test("what the event loop waited is no cost", () => {
  const profile = {
    nodes: [{ ...frame(1, "(root)", ""), children: [2, 3] }, frame(2, "", ""), frame(3, "parse", "")],
    startTime: 0,
    endTime: 1_000,
    samples: [2, 3, 2],
    timeDeltas: [500, 100, 400],
  };
  const sums = costs([{ profile, from: 0, to: 1 }]);
  const told = ({ functions }: typeof sums) => functions.map(({ what, us }) => [what, us]);
  expect(told(sums)).toEqual([
    ["event loop", 900],
    ["parse", 100],
  ]);
  const { us, functions, owners } = withoutWaits(sums, 150);
  expect(us).toBe(150);
  expect(functions.map(({ what, us }) => [what, us])).toEqual([
    ["parse", 100],
    ["event loop", 50],
  ]);
  expect(owners).toEqual([{ what: "runtime (native)", where: "", us: 150, share: 1 }]);
  expect(told(withoutWaits(sums, 2_000))).toEqual(told(sums));
});

test("code belongs to a folder of ours, to its package, or to the runtime", () => {
  const owners = {
    "src/app.ts": "src",
    "src/storage/sqlite/writer.ts": "src/storage",
    "node_modules/elysia/dist/index.mjs": "elysia",
    "/x/node_modules/a/node_modules/@b/c/src/d/e.js": "@b/c",
    "node:fs": "runtime (node:fs)",
    "": "runtime (native)",
    "file:///$bunfs/root/errand": "modules as they are loaded",
  };
  for (const [url, owner] of Object.entries(owners)) expect([url, ownerOf(url)]).toEqual([url, owner]);
});

test("memory is told by what it holds", () => {
  const smaps = [
    "00200000-02e00000 r--p 00000000 fe:00 1234                       /opt/my errand",
    "Size:              45056 kB",
    "Rss:               16384 kB",
    "02e00000-07000000 r-xp 02c00000 fe:00 1234                       /opt/my errand",
    "Rss:               32768 kB",
    "7f0000000000-7f0000100000 rw-p 00000000 00:00 0 ",
    "Rss:                1024 kB",
    "7f0000200000-7f0000300000 rwxp 00000000 00:00 0 ",
    "Rss:                 512 kB",
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]",
    "Rss:                 256 kB",
  ].join("\n");
  expect(residentOf(smaps, "/opt/my errand")).toEqual({
    "the executable: data": 16,
    "the executable: code": 32,
    "heaps (JavaScript, SQLite, buffers)": 1,
    "code compiled as it runs": 0.5,
    stacks: 0.25,
  });
});

test("threads of one name are told together, and the first as the main one", () => {
  const names = [...threads(process.pid).keys()];
  expect(names).toContain("main");
  expect(names.filter((name) => /\d$/.test(name))).toEqual([]);
});
