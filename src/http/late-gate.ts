import { pathOf } from "./context.ts";
import { createGate, type Gate, type GateDeps } from "./gate.ts";
import { type HealthCheck, healthAlone } from "./health.ts";

type Routes = Pick<GateDeps, "app" | "direct" | "recognise">;

/**
 * A gate that answers `/health` at once, and everything else as soon as there are routes: they are made for the
 * first who wants one, or by `complete`. With their framework they would be half of what a start takes.
 * `complete` rejects where `routes` or the gate throws: no routes, no service.
 */
export function createLateGate({
  common,
  checks,
  routes,
}: {
  common: Omit<GateDeps, keyof Routes>;
  checks: HealthCheck[];
  routes(checks: HealthCheck[]): Promise<Routes>;
}): { gate: Gate; complete(): Promise<Gate> } {
  const probed = createGate({ ...common, ...healthAlone(checks) });
  let whole: Promise<Gate> | undefined;
  let gate: Gate = async (request, server) =>
    pathOf(request.url) === "/health" ? probed(request, server) : (await complete())(request, server);

  async function make(): Promise<Gate> {
    gate = createGate({ ...common, ...(await routes(checks)) });
    return gate;
  }

  function complete(): Promise<Gate> {
    whole ??= make();
    return whole;
  }

  return { gate: (request, server) => gate(request, server), complete };
}
