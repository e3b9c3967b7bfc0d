import { Elysia } from "elysia";
import { approvalRoutes } from "./agents/approval-routes.ts";
import { attachmentRoutes } from "./agents/attachment-routes.ts";
import { conversationRoutes } from "./agents/conversation-routes.ts";
import { agentRoutes } from "./agents/routes.ts";
import { streamRoutes } from "./agents/stream-routes.ts";
import { type Config, prefixOf } from "./config.ts";
import { connectionRoutes } from "./connections/routes.ts";
import { doorRoutes } from "./door/routes.ts";
import { eventRoutes } from "./events/routes.ts";
import { executionRoutes } from "./executions/routes.ts";
import { waitRecognise, waitRoutes } from "./executions/wait-routes.ts";
import { hookTokenRoutes, incomingDirect, incomingRecognise, incomingRoutes } from "./hooks/routes.ts";
import { bodies, edge } from "./http/edge.ts";
import { type HealthCheck, healthDirect } from "./http/health.ts";
import type { Metrics } from "./http/metrics.ts";
import { openapiDocument, openapiRoutes } from "./http/openapi.ts";
import { operationsRoutes } from "./http/operations-routes.ts";
import { keyRoutes } from "./keys/routes.ts";
import type { Log } from "./lib/log.ts";
import type { Services } from "./services.ts";
import { triggerDirect, triggerRecognise, triggerRoutes } from "./triggers/routes.ts";
import { VERSION } from "./version.ts";
import { egressIpRoutes, webhookRoutes } from "./webhooks/routes.ts";
import { workflowRoutes } from "./workflows/routes.ts";

/** The URL table: which feature answers under which prefix. The gate stands in front of it. */
export function createServer(
  config: Config,
  services: Services,
  { checks, metrics, log }: { checks: HealthCheck[]; metrics: Metrics; log: Log },
) {
  const about = { title: "Errand", version: VERSION, url: () => config.public_url };
  const openapi = openapiDocument(() => app, about);
  const features = new Elysia({ name: "features", prefix: prefixOf(config) })
    .use(keyRoutes(services))
    .use(agentRoutes(services))
    .use(approvalRoutes(services))
    .use(streamRoutes(services))
    .use(conversationRoutes(services))
    .use(attachmentRoutes(services))
    .use(doorRoutes(services))
    .use(workflowRoutes(services))
    .use(executionRoutes(services))
    .use(connectionRoutes(services))
    .use(hookTokenRoutes(services))
    .use(triggerRoutes(services))
    .use(egressIpRoutes(config))
    .use(openapiRoutes({ openapi }));
  const operations = {
    checks,
    metrics,
    // Figures name routes and workloads: where others than this machine may reach it, directly or through a
    // proxy, they are shown by key alone.
    metricsPolicy: isPrivate(config) ? ("public" as const) : ("key" as const),
  };
  const app = new Elysia({ name: "errand", normalize: false })
    .use(edge({ log, authenticate: services.keys.authenticate }))
    // Before the rest: plugins reach every route that stands behind them, and this is the busiest way in.
    .group("/webhooks", (incoming) => incoming.use(incomingRoutes(services)).use(waitRoutes(services)))
    .use(bodies)
    .use(operationsRoutes(operations))
    .use(features)
    .group("/api/v1", (management) => management.use(webhookRoutes(services)).use(eventRoutes(services)));
  const prefix = prefixOf(config);
  return {
    app,
    direct: {
      ...healthDirect(checks),
      ...incomingDirect(services),
      ...triggerDirect(prefix, services),
    },
    recognise: {
      ...incomingRecognise(services),
      ...waitRecognise(services),
      ...triggerRecognise(prefix, services),
    },
  };
}

const isPrivate = ({ host, public_url, trusted_proxies }: Config): boolean =>
  isLoopback(host) && isLoopback(new URL(public_url).hostname) && trusted_proxies.length === 0;

const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || host.startsWith("127.");
