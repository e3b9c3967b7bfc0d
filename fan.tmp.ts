import { createKey, scratch, startErrand, discard } from "./scripts/lib/errand.ts";
import { hookOf, subscribe, yardstick, arrived, cpu, BODY } from "./scripts/bench/measure.ts";
const data = scratch(); const key = await createKey(data);
const prof = process.argv[2] === "prof";
const errand = await startErrand({ data, key, args: ["--log-level", "error", "--access-log", "false"], env: { ERRAND_ALLOW_TARGETS: "127.0.0.1", ...(prof ? { BUN_OPTIONS: "--cpu-prof --cpu-prof-dir=/tmp/prof --cpu-prof-interval=400" } : {}) } });
const r = await yardstick("receiver"); const url = await hookOf(errand, key);
for (let n = 0; n < 50; n++) await subscribe(errand, r.url);
let sent = 0;
async function fire(runs: number) { for (let left = runs; left > 0; left -= 4) await Promise.all([1,2,3,4].map(async () => { await (await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: BODY })).text(); })); sent += runs * 50; await arrived(r.url, sent); }
await fire(200);
const c0 = cpu(errand.pid); const t0 = performance.now(); const N = 400; await fire(N); const t = performance.now() - t0; const c = cpu(errand.pid);
console.log("rate", Math.round(N * 50 / t * 1000), "main us", ((c.main - c0.main) / N / 50).toFixed(1), "all us", ((c.all - c0.all) / N / 50).toFixed(1));
const { readdirSync, readFileSync } = await import("node:fs");
for (const t of readdirSync(`/proc/${errand.pid}/task`)) { const s = readFileSync(`/proc/${errand.pid}/task/${t}/stat`, "utf8"); const f = s.slice(s.lastIndexOf(")") + 2).split(" "); const u = (Number(f[11]) + Number(f[12])) * 10; if (u > 100) console.log(readFileSync(`/proc/${errand.pid}/task/${t}/comm`, "utf8").trim(), u, "ms"); }
r.end(); await errand.stop(); discard(data); process.exit();
