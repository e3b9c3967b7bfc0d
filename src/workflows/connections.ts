import type { Connections } from "../connections/service.ts";
import type { Caller } from "../keys/schema.ts";
import type { Fault } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { nodeType } from "../nodes/index.ts";
import type { NodeType } from "../nodes/node.ts";

type Reference = { ref: string; types: NonNullable<NodeType["connections"]>; field: string };

/** Connections that a workflow's nodes name, at whatever depth, and that are none of the project's. */
export async function connectionFaults(
  connections: Pick<Connections, "referenceFault">,
  caller: Caller,
  nodes: unknown[],
): Promise<Fault[]> {
  const faults = await Promise.all(
    references(nodes, "nodes").map(({ ref, types, field }) =>
      connections.referenceFault(caller, ref, types, field),
    ),
  );
  return faults.filter((fault) => fault !== undefined);
}

/** Nodes hold nodes in their configuration: whatever has a type and a configuration is one. */
function references(value: unknown, at: string): Reference[] {
  if (typeof value !== "object" || value === null) return [];
  const below = Object.entries(value).flatMap(([key, item]) => references(item, `${at}.${key}`));
  const own = isObject(value) ? referenceOf(value, at) : undefined;
  return own ? [own, ...below] : below;
}

function referenceOf(node: Record<string, unknown>, at: string): Reference | undefined {
  const { node_type_name, input_config } = node;
  const types = typeof node_type_name === "string" ? nodeType(node_type_name)?.connections : undefined;
  if (!types) return undefined;
  const inConfig = isObject(input_config) ? input_config["connection"] : undefined;
  if (typeof inConfig === "string") return { ref: inConfig, types, field: `${at}.input_config.connection` };
  const { connection } = node;
  return typeof connection === "string" ? { ref: connection, types, field: `${at}.connection` } : undefined;
}
