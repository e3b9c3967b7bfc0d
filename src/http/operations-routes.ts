import { Elysia } from "elysia";
import { jsonOf, responses, textOf } from "./answers.ts";
import { type HealthCheck, health } from "./health.ts";
import type { Metrics } from "./metrics.ts";
import { policies } from "./policy.ts";

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

const prometheus = (text: string): Response =>
  new Response(text, { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
