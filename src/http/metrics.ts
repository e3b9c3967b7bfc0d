import { readdirSync, readFileSync } from "node:fs";
import type { Route } from "./routes.ts";

/** Upper bounds in seconds; a hook is accepted in about a millisecond, a streamed turn takes minutes. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export type Sample = { labels?: Record<string, string>; value: number };
type Read = () => number | Sample[] | undefined | Promise<number | Sample[] | undefined>;

export type Metrics = {
  /** Counts one answered request; `seconds` until its headers were ready. */
  observe(route: Route | undefined, method: string, status: number, seconds: number): void;
  /** Registers a value read when the page is asked for; undefined leaves it out. */
  gauge(name: string, help: string, read: Read): void;
  /** The page, in Prometheus' text format 0.0.4. */
  render(): Promise<string>;
};

// Methods come from the wire: unknown ones share a label, so that nobody can grow the page.
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

type Series = { labels: string; byClass: Float64Array; buckets: Float64Array; sum: number; count: number };

/** Counters and gauges of this process. Requests are counted per method and route template, never per path. */
export function createMetrics(prefix = "errand"): Metrics {
  // By template: the gate before there are routes and the one after have a route each for /health.
  const known = new Map<string, Map<string, Series>>();
  const gauges: { name: string; help: string; read: Read }[] = [];

  function seriesOf(route: Route | undefined, method: string): Series {
    const template = route?.template ?? "unmatched";
    let byMethod = known.get(template);
    if (!byMethod) {
      byMethod = new Map();
      known.set(template, byMethod);
    }
    let series = byMethod.get(method);
    if (!series) {
      series = {
        labels: labelText({ method, route: template }),
        byClass: new Float64Array(6),
        buckets: new Float64Array(BUCKETS.length),
        sum: 0,
        count: 0,
      };
      byMethod.set(method, series);
    }
    return series;
  }

  return {
    observe(route, method, status, seconds) {
      const series = seriesOf(route, METHODS.has(method) ? method : "other");
      series.byClass[Math.min(5, Math.floor(status / 100))]!++;
      series.sum += seconds;
      series.count++;
      for (let i = 0; i < BUCKETS.length; i++) {
        if (seconds <= BUCKETS[i]!) {
          series.buckets[i]!++;
          break;
        }
      }
    },

    gauge: (name, help, read) => void gauges.push({ name, help, read }),

    async render() {
      const all = [...known.values()].flatMap((byMethod) => [...byMethod.values()]);
      const lines = [...requestLines(`${prefix}_http_requests_total`, all), ...durationLines(prefix, all)];
      for (const { name, help, read } of gauges) {
        // One broken gauge must not cost the page.
        const value = await Promise.resolve()
          .then(read)
          .catch(() => undefined);
        const samples = typeof value === "number" ? [{ value }] : value;
        if (!samples) continue;
        lines.push(...head(`${prefix}_${name}`, help, "gauge"));
        for (const sample of samples)
          lines.push(`${prefix}_${name}${wrap(labelText(sample.labels ?? {}))} ${sample.value}`);
      }
      return `${lines.join("\n")}\n`;
    },
  };
}

const head = (name: string, help: string, type: string) => [
  `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`,
  `# TYPE ${name} ${type}`,
];

const labelText = (labels: Record<string, string>): string =>
  Object.entries(labels)
    .map(([name, value]) => {
      const text = value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
      return `${name}="${text}"`;
    })
    .join(",");

const wrap = (labels: string): string => (labels === "" ? "" : `{${labels}}`);

function requestLines(name: string, all: Series[]): string[] {
  const lines = head(name, "Requests answered, by route, method and class of status.", "counter");
  for (const { labels, byClass } of all) {
    byClass.forEach((count, index) => {
      if (count > 0) lines.push(`${name}{${labels},status="${index}xx"} ${count}`);
    });
  }
  return lines;
}

function durationLines(prefix: string, all: Series[]): string[] {
  const name = `${prefix}_http_request_duration_seconds`;
  const lines = head(name, "Time until an answer's headers were ready.", "histogram");
  for (const { labels, buckets, sum, count } of all) {
    let below = 0;
    BUCKETS.forEach((bound, index) => {
      below += buckets[index]!;
      lines.push(`${name}_bucket{${labels},le="${bound}"} ${below}`);
    });
    lines.push(
      `${name}_bucket{${labels},le="+Inf"} ${count}`,
      `${name}_sum{${labels}} ${sum}`,
      `${name}_count{${labels}} ${count}`,
    );
  }
  return lines;
}

/** What every process has to show: memory, open files, uptime and how late its event loop runs. */
export function processGauges(metrics: Metrics, started: number, now: () => number): void {
  metrics.gauge("process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage.rss());
  metrics.gauge("process_heap_bytes", "JavaScript heap in use.", () => process.memoryUsage().heapUsed);
  metrics.gauge("process_uptime_seconds", "Time since the start.", () => (now() - started) / 1_000);
  metrics.gauge("process_cpu_seconds", "Processor time used, user and system.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  // /proc is Linux: elsewhere these two are left out.
  metrics.gauge("process_open_fds", "Open file descriptors.", () => readdirSync("/proc/self/fd").length);
  metrics.gauge("process_max_fds", "Most file descriptors this process may open.", () => {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return limit === undefined ? undefined : Number(limit);
  });
  metrics.gauge(
    "event_loop_lag_seconds",
    "Time a task waited for its turn when this page was asked for.",
    async () => {
      const before = performance.now();
      await new Promise((resolve) => setImmediate(resolve));
      return (performance.now() - before) / 1_000;
    },
  );
}
