import type { JsonObject } from "../lib/json.ts";

/** An answer as its client has it. */
export type WireResponse = JsonObject & { id: string; object: string; output: JsonObject[] };

/** `input`: the items of the request, as JSON. */
export type ResponseRow = {
  id: string;
  project_id: string;
  previous_id: string | null;
  input: string;
  response: WireResponse;
  created_at: number;
};

export type ResponseStore = {
  put(row: ResponseRow): Promise<void>;
  get(id: string): Promise<ResponseRow | undefined>;
  remove(id: string): Promise<boolean>;
  /** Those made before; how many went, at most `limit`. */
  forget(before: number, limit: number): Promise<number>;
};
