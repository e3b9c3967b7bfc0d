import { Elysia } from "elysia";
import { jsonOf, responses, textOf } from "./answers.ts";
import type { Metrics } from "./metrics.ts";
import { policies } from "./policy.ts";
import type { Direct } from "./routes.ts";

/** A reason why the service is not healthy, in a few public words; undefined when it is. */
export type HealthCheck = () => string | undefined | Promise<string | undefined>;

const HEALTHY = { type: "object", required: ["status"], properties: { status: { const: "ok" } } };

/**
 * `GET /health`: 200 `{"status":"ok"}` or 503 `{"status":"degraded","reason"}`, the first check that
 * complains. `GET /metrics`: Prometheus text, to the callers `metricsPolicy` lets in.
 */
export const operationsRoutes = ({
  checks,
  metrics,
  metricsPolicy,
}: {
  checks: HealthCheck[];
  metrics: Metrics;
  metricsPolicy: "public" | "key";
}) =>
  new Elysia({ name: "http.operations" })
    .use(policies)
    .get("/health", () => health(checks), {
      policy: "public",
      detail: {
        summary: "Whether the service can work",
        tags: ["operations"],
        ...responses({ 200: { description: "It can.", content: jsonOf(HEALTHY) } }),
        "x-exempt": true,
      } as object,
    })
    .get("/metrics", async () => prometheus(await metrics.render()), {
      policy: metricsPolicy,
      detail: {
        summary: "Figures in Prometheus text format",
        tags: ["operations"],
        ...responses({ 200: { description: "The figures.", content: textOf("text/plain") } }),
      },
    });

/** The same answer without the framework: a start is over when it can be given. */
export const operationsDirect = (checks: HealthCheck[]): Record<string, Direct> => ({
  "GET /health": () => health(checks),
});

async function health(checks: HealthCheck[]): Promise<Response> {
  for (const check of checks) {
    const reason = await Promise.resolve()
      .then(check)
      .catch(() => "a health check failed");
    if (reason !== undefined) return Response.json({ status: "degraded", reason }, { status: 503 });
  }
  return Response.json({ status: "ok" });
}

const prometheus = (text: string): Response =>
  new Response(text, { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
