import { expect, test } from "bun:test";
import { costs, ownerOf } from "../../scripts/bench/cpu-profile.ts";
import { residentOf, threads } from "../../scripts/bench/resident.ts";

const frame = (id: number, functionName: string, url: string, lineNumber = -1) => ({
  id,
  callFrame: { functionName, url, lineNumber },
});

const profile = {
  nodes: [
    { ...frame(1, "(root)", ""), children: [2, 3] },
    frame(2, "", ""),
    frame(3, "handle", "/build/src/http/gate.ts", 9),
    frame(4, "", "/build/node_modules/@scope/thing/dist/index.mjs", 4),
    // The same function, called from elsewhere.
    frame(5, "handle", "/build/src/http/gate.ts", 9),
  ],
  startTime: 1_000_000,
  endTime: 1_100_000,
  // The third came after a wait.
  samples: [2, 3, 4, 5, 2],
  timeDeltas: [1_000, 1_000, 95_000, 1_000, 1_000],
};

test("a profile tells what functions used by themselves within a window, and whose they are", () => {
  const { samples, functions, owners } = costs([{ profile, from: 1_001.5, to: 1_098.5 }], 900);
  expect(samples).toBe(3);
  expect(functions).toEqual([
    { what: "handle", where: "src/http/gate.ts:10", us: 600, share: 2 / 3 },
    { what: "(anonymous)", where: "@scope/thing/dist/index.mjs:5", us: 300, share: 1 / 3 },
  ]);
  expect(owners.map(({ what, us }) => [what, us])).toEqual([
    ["src/http", 600],
    ["@scope/thing", 300],
  ]);
  expect(costs([{ profile, from: 0, to: 1 }], 900)).toEqual({ samples: 0, functions: [], owners: [] });
});

test("what no script has called is the event loop's, however long it waited", () => {
  const { functions } = costs([{ profile, from: 0, to: 2_000 }], 1_000);
  expect(functions.map(({ what, us }) => [what, us])).toEqual([
    ["event loop", 400],
    ["handle", 400],
    ["(anonymous)", 200],
  ]);
});

test("code belongs to a folder of ours, to its package, or to the runtime", () => {
  const owners = {
    "src/app.ts": "src",
    "src/storage/sqlite/writer.ts": "src/storage",
    "node_modules/elysia/dist/index.mjs": "elysia",
    "/x/node_modules/a/node_modules/@b/c/src/d/e.js": "@b/c",
    "node:fs": "runtime (node:fs)",
    "": "runtime (native)",
    // Where Bun has what is inside of an executable, on every machine.
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
