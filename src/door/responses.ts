import type { Caller } from "../keys/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { AppError, invalidField } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { ResponseRow, ResponseStore } from "./response-store.ts";

export type Responses = ReturnType<typeof createResponses>;

/** How far back a chain of responses is gone. */
const LONGEST_CHAIN = 500;
/** Of what was sent; a larger request is answered and not kept. */
const LARGEST_INPUT = 8 * 1024 * 1024;
const ID = /^(resp|msg|rs|fc)_([0-9a-f]{32})(?:_\d+)?$/;

export const responseIdOf = (message_id: string): string => `resp_${message_id.replaceAll("-", "")}`;
/** The id of an output item, from which its response is found again. */
export const itemIdOf = (kind: "msg" | "rs" | "fc", message_id: string, index: number): string =>
  `${kind}_${message_id.replaceAll("-", "")}_${index}`;

/**
 * Answers that their clients refer to later, as OpenAI's clients do: by `previous_response_id`, or by the id
 * of an item in them.
 */
export function createResponses({ store, clock }: { store: ResponseStore; clock: Clock }) {
  async function find({ project_id }: Caller, id: string): Promise<ResponseRow | undefined> {
    const key = ID.exec(id)?.[2];
    const row = key === undefined ? undefined : await store.get(`resp_${key}`);
    return row?.project_id === project_id ? row : undefined;
  }

  async function known(caller: Caller, id: string): Promise<ResponseRow> {
    const row = id.startsWith("resp_") ? await find(caller, id) : undefined;
    if (!row) throw new AppError("not_found", `There is no response ${id.slice(0, 100)}.`, NOT_FOUND);
    return row;
  }

  return {
    get: async (caller: Caller, id: string) => (await known(caller, id)).response,

    async remove(caller: Caller, id: string) {
      await store.remove((await known(caller, id)).id);
      return { id, object: "response", deleted: true };
    },

    /** All that was said up to a response, itself last, as items. Throws `invalid_input` where it is not on record. */
    async upTo(caller: Caller, id: string): Promise<unknown[]> {
      const turns: unknown[][] = [];
      for (let next: string | null = id; next !== null && turns.length < LONGEST_CHAIN; ) {
        const row: ResponseRow | undefined = await find(caller, next);
        if (!row && turns.length === 0)
          throw invalidField("previous_response_id", "a response on record", "an unknown one");
        if (!row) break; // what was before is forgotten or deleted
        turns.push([...(JSON.parse(row.input) as unknown[]), ...row.response.output]);
        next = row.previous_id;
      }
      return turns.reverse().flat();
    },

    /** An item of an earlier answer. */
    async item(caller: Caller, id: string): Promise<JsonObject | undefined> {
      return (await find(caller, id))?.response.output.find((item) => item["id"] === id);
    },

    /** Whether a request of this size is kept. */
    fits: (input: string): boolean => input.length <= LARGEST_INPUT,

    keep: (row: Omit<ResponseRow, "created_at">) => store.put({ ...row, created_at: clock.now() }),
  };
}

const NOT_FOUND = {
  faults: [{ field: "response_id", expected: "a response on record", received: "an unknown one" }],
};
