import type { Direct, Routable } from "./routes.ts";

/** A reason why the service is not healthy, in a few public words; undefined when it is. */
export type HealthCheck = () => string | undefined | Promise<string | undefined>;

/** 200 `{"status":"ok"}` or 503 `{"status":"degraded","reason"}`, the first check that complains. */
export async function health(checks: HealthCheck[]): Promise<Response> {
  for (const check of checks) {
    const reason = await Promise.resolve()
      .then(check)
      .catch(() => "a health check failed");
    if (reason !== undefined) return Response.json({ status: "degraded", reason }, { status: 503 });
  }
  return Response.json({ status: "ok" });
}

/** `GET /health` without the framework. */
export const healthDirect = (checks: HealthCheck[]): Record<string, Direct> => ({
  "GET /health": () => health(checks),
});

/** All that a gate needs to answer `/health` and nothing else: before there are other routes. */
export const healthAlone = (checks: HealthCheck[]) => ({
  app: {
    routes: [
      { method: "GET", path: "/health", hooks: { detail: { "x-policy": "public", "x-exempt": true } } },
    ],
    fetch: () => health(checks),
  } satisfies Routable & { fetch: unknown },
  direct: healthDirect(checks),
});
