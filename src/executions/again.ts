import type { StartContext } from "../hooks/idempotency.ts";
import { conflict, invalidField } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Node } from "../workflows/schema.ts";
import type { Definition } from "../workflows/service.ts";
import type { StartAnswer, Starts } from "./start.ts";
import type { ExecutionRow, ExecutionStore, StepRow } from "./store.ts";

/** Other tries of an execution that has ended: each is an execution of its own, of the same program. */
export function createAgain({
  store,
  starts,
  definition,
}: {
  store: ExecutionStore;
  starts: Starts;
  definition(hash: string): Promise<Definition>;
}) {
  async function answer(origin: ExecutionRow, given: Parameters<Starts["again"]>[1]): Promise<StartAnswer> {
    const { id, replayed } = await starts.again(origin, given);
    return {
      status: 202,
      body: { execution_id: id, status: "queued", origin_execution_id: origin.id },
      replayed,
    };
  }

  return {
    /**
     * Goes on from the step that failed, or from the node `from_node` of the workflow's own list, over the
     * stored outputs of what was done before it. Throws `conflict` for a run that has not ended, or that
     * ended well where no node is named.
     */
    async retry(origin: ExecutionRow, from_node: string | undefined, context: StartContext) {
      if (origin.ended_at === null) throw conflict("This execution has not ended.");
      if (origin.state === "success" && from_node === undefined) {
        throw conflict("This execution ended well: name the node to go on from, or replay it.");
      }
      const rows = await store.steps(origin.id);
      const { nodes } = await definition(origin.definition_hash);
      const index = from_node === undefined ? stoppedAt(rows) : indexOf(nodes, from_node);
      const isDone = ({ seq, state }: StepRow) =>
        state === "success" || state === "skipped"
          ? seq < index || (seq === index && from_node === undefined)
          : // One that failed and was gone on after.
            state === "failed" && seq < index;
      return answer(origin, {
        input: JSON.parse(origin.input) as JsonObject,
        source: "retry",
        steps: rows.filter(isDone),
        idempotency: context.idempotency,
      });
    },

    /** Runs all of it anew, with the input it had or another. */
    replay: (origin: ExecutionRow, input_data: JsonObject | undefined, context: StartContext) =>
      answer(origin, {
        input: input_data ?? (JSON.parse(origin.input) as JsonObject),
        source: "replay",
        steps: [],
        idempotency: context.idempotency,
      }),
  };
}

/** The node of the workflow's own list that ran last. */
const stoppedAt = (rows: StepRow[]): number => rows.reduce((last, { seq }) => Math.max(last, seq), 0);

function indexOf(nodes: Node[], name: string): number {
  const index = nodes.findIndex((node) => node.name === name);
  if (index >= 0) return index;
  throw invalidField("from_node", "the name of a node of the workflow's own list", name.slice(0, 100));
}
