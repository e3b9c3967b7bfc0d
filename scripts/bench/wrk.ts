import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LoadPlan, LoadResult } from "./load.ts";

/** wrk, where it is installed: it takes a tenth of the CPU of a loader in JavaScript, on the same two cores. */
export const hasWrk = (): boolean => Bun.which("wrk") !== null;

const text = (value: string) => JSON.stringify(value).replaceAll("\\/", "/");

function script({ method, headers = {}, body }: LoadPlan): string {
  const all = { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers };
  return `
wrk.method = ${text(method ?? (body === undefined ? "GET" : "POST"))}
${body === undefined ? "" : `wrk.body = ${text(body)}`}
${Object.entries(all)
  .map(([name, value]) => `wrk.headers[${text(name)}] = ${text(value)}`)
  .join("\n")}
function done(summary, latency)
  io.write(string.format('\\nRESULT {"requests":%d,"us":%d,"p50":%d,"p99":%d,"max":%d,"refused":%d,"broken":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    summary.errors.status, summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end`;
}

/** The same result as `load` gives; statuses are told as 2xx and "other" alone. */
export async function wrkLoad(plan: LoadPlan): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), "errand-wrk-"));
  try {
    const file = join(folder, "load.lua");
    writeFileSync(file, script(plan));
    const { connections, seconds, url } = plan;
    const args = [
      "-t1",
      `-c${connections}`,
      `-d${Math.max(1, Math.round(seconds))}s`,
      "--timeout",
      "30s",
      "-s",
      file,
      url,
    ];
    const child = Bun.spawn(["wrk", ...args], { stdout: "pipe", stderr: "inherit" });
    const printed = await new Response(child.stdout).text();
    const line = /^RESULT (.*)$/m.exec(printed)?.[1];
    if (line === undefined) throw new Error(`wrk printed no result:\n${printed}`);
    const { requests, us, p50, p99, max, refused, broken } = JSON.parse(line) as Record<string, number>;
    return {
      requests: requests!,
      seconds: us! / 1e6,
      rate: Math.round(requests! / (us! / 1e6)),
      p50_ms: p50! / 1_000,
      p99_ms: p99! / 1_000,
      max_ms: max! / 1_000,
      statuses: {
        "2xx": requests! - refused!,
        ...(refused! + broken! > 0 ? { other: refused! + broken! } : {}),
      },
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
