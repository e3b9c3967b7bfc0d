import Type from "typebox";
import type { ConnectionType, OpenConnection } from "../connections/types.ts";
import { NodeError, type NodeRun } from "./node.ts";

/** The field by which a node names one. */
export const connectionField = (what: string) =>
  Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: `${what}: a connection of the project, by name or id.`,
    }),
  );

type OfType<T extends ConnectionType> = Extract<OpenConnection, { type: T }>;

/** The connection that a configuration names, opened; undefined where it names none. */
export async function openConnection<T extends ConnectionType>(
  { connections, scope }: NodeRun,
  ref: string | undefined,
  types: readonly T[],
): Promise<OfType<T> | undefined> {
  if (ref === undefined) return undefined;
  const shown = JSON.stringify(ref.slice(0, 100));
  const found = await connections.open(scope.project_id, ref);
  if (found === "foreign") {
    throw new NodeError("CONNECTION_FOREIGN", `The connection ${shown} belongs to another project.`);
  }
  if (!found)
    throw new NodeError(
      "CONNECTION_MISSING",
      `There is no connection ${shown} in this project; was it deleted?`,
    );
  if (!(types as readonly ConnectionType[]).includes(found.type)) {
    const expected = types.join(", ");
    throw new NodeError(
      "CONNECTION_TYPE",
      `The connection ${shown} is of type ${found.type}; expected ${expected}.`,
    );
  }
  return found as OfType<T>;
}
