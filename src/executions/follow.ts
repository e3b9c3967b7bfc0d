import { forStatus, presentExecution, presentStep } from "./present.ts";
import type { ExecutionRow, ExecutionStore } from "./store.ts";
import type { Waiters } from "./waiters.ts";

/** What those wait by who follow an execution as it goes. */
export const following = (id: string): string => `${id}/steps`;

const HEARTBEAT_MS = 10_000;

/**
 * An execution as server-sent events: `status` whenever it changes, `step` for each step as it stands when it
 * changes, and at last `end` with the whole result. The id of an event is how far the steps have been told;
 * given back as `after` (Last-Event-ID), only what is newer is told.
 */
export function followExecution(
  { store, waiters }: { store: ExecutionStore; waiters: Waiters },
  execution_id: string,
  after: number,
): Response {
  const encoder = new TextEncoder();
  const gone = new AbortController();
  let told = after;
  let status: string | undefined;

  /** What there is to tell now; undefined when the execution is not there any more. */
  async function news(): Promise<{ text: string; hasEnded: boolean } | undefined> {
    // The execution first: whatever it ended with is among the steps that are read after it.
    const row = await store.get(execution_id);
    if (!row) return undefined;
    const steps = await store.steps(execution_id, told);
    let text = "";
    if (row.state !== status) text += event("status", forStatus(row), told);
    status = row.state;
    for (const [index, step] of steps.entries()) {
      // Several may have changed at once: only the last of them says so, or a break between loses the others.
      const isLast = steps[index + 1]?.rev !== step.rev;
      text += event("step", presentStep(step), isLast ? step.rev : undefined);
      told = step.rev;
    }
    const hasEnded = isEnded(row);
    if (hasEnded) text += event("end", presentExecution(row), told);
    return { text, hasEnded };
  }

  async function hasNews(): Promise<boolean> {
    const row = await store.get(execution_id);
    return row?.state !== status || (await store.steps(execution_id, told)).length > 0;
  }

  let isOver = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (isOver) return controller.close();
        for (;;) {
          const found = await news();
          if (gone.signal.aborted) return;
          isOver = !found || found.hasEnded;
          if (found?.text) return controller.enqueue(encoder.encode(found.text));
          if (isOver) return controller.close();
          await waiters.wait(following(execution_id), HEARTBEAT_MS, hasNews, gone.signal);
          if (gone.signal.aborted) return;
          if (waiters.closed()) return controller.close();
          if (!(await hasNews())) return controller.enqueue(encoder.encode(": still here\n\n"));
        }
      },
      cancel() {
        gone.abort();
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      "x-execution-id": execution_id,
    },
  });
}

export const isEnded = ({ state }: ExecutionRow): boolean =>
  state === "success" || state === "failed" || state === "cancelled";

const event = (name: string, data: object, id: number | undefined): string =>
  `event: ${name}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`;
