import type { Errand } from "./errand.ts";

/** Makes a workflow that greets, with a token; answers the address that starts it. */
export async function greetingHook(errand: Errand, workspace_id: string): Promise<string> {
  const workflow = await errand.api<{ id: string }>("POST", `/api/workflows?workspace_id=${workspace_id}`, {
    name: "greeting",
    nodes: [
      {
        node_type_name: "set_variables",
        name: "greet",
        input_config: { variables: { text: "Hello {{ n }}" } },
      },
    ],
  });
  if (workflow.status !== 201) throw new Error(JSON.stringify(workflow.body));
  const token = await errand.api<{ token: string }>(
    "POST",
    `/api/workflows/${workflow.body.id}/webhook-tokens`,
    {},
  );
  return `${errand.url}/webhooks/workflows/${workflow.body.id}?token=${token.body.token}`;
}

/** Subscribes an address to the end of every run. */
export async function subscribe(errand: Errand, url: string): Promise<void> {
  const events = ["workflow.execution.completed"];
  const made = await errand.api("POST", "/api/v1/webhooks", { name: "load", url, events });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
}

/** Starts one run after the other until told to stop or cut off; notes the ids that were acknowledged. */
export async function fire(
  hook: string,
  acknowledged: Set<string>,
  signal: AbortSignal,
  input: Record<string, unknown> = {},
): Promise<void> {
  for (let n = 0; !signal.aborted; n++) {
    try {
      const response = await fetch(hook, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ input_data: { ...input, n } }),
        signal,
      });
      const body = (await response.json()) as { execution_id: string };
      if (response.status === 202) acknowledged.add(body.execution_id);
    } catch {
      return; // cut off under way: not acknowledged, so nothing was promised
    }
  }
}

/** mulberry32, from 0 up to 1: the same seed gives the same run. */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
