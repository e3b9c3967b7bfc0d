/** A model server that only speaks, agents of the program before it, and those who read what they say. */
import { join } from "node:path";
import type { Errand, Key } from "../lib/errand.ts";
import { cpu, memory, withErrand } from "./measure.ts";
import type { ReadPlan, ReadResult } from "./readers.ts";

const here = (file: string) => join(import.meta.dir, file);

/** Says a few words at once; says so many as fast as they are taken. */
export const BRIEF = "burst:5";
export const burst = (tokens: number) => `burst:${tokens}`;

/** Where a model's words are asked for: at the model server itself, or through an agent. */
export type Way = Pick<ReadPlan, "url" | "headers" | "body">;

/** Reads so many answers one after the other in so many streams at once, from a process of its own. */
export async function read(way: Way, streams: number, rounds: number): Promise<ReadResult> {
  const plan: ReadPlan = { ...way, streams, rounds };
  const child = Bun.spawn([process.execPath, here("readers.ts"), JSON.stringify(plan)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const result = JSON.parse(await new Response(child.stdout).text()) as ReadResult;
  if (result.ended !== streams * rounds)
    throw new Error(`${result.ended} of ${streams * rounds} answers ended`);
  return result;
}

export type Server = { url: string; port: number; pid: number; end(): void };

async function server(file: string, ...args: string[]): Promise<Server> {
  const child = Bun.spawn([process.execPath, here(file), ...args], { stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  const port = Number(new TextDecoder().decode((await reader.read()).value));
  return { url: `http://127.0.0.1:${port}`, port, pid: child.pid, end: () => child.kill() };
}

/** The bare program between the model server and its readers: see relay.ts. */
export const relayOf = (model: Server): Promise<Server> => server("relay.ts", String(model.port));

export const json = { "content-type": "application/json" };
export const direct = ({ url }: Server, model: string): Way => ({
  url: `${url}/v1/chat/completions`,
  headers: json,
  body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hi" }] }),
});

/** An agent that speaks with the words of `model`. */
export async function createAgent(errand: Errand, key: Key, model: string): Promise<string> {
  const path = `/api/agents?workspace_id=${key.workspace_id}`;
  const body = { name: model, model: `openai/${model}`, auto_generate_title: false };
  return (await errand.api<{ id: string }>("POST", path, body)).body.id;
}

export function asking(errand: Errand, key: Key, agent: string, protocol = "data-stream"): Way {
  const isDoor = protocol === "chat";
  return {
    url: isDoor
      ? `${errand.url}/api/chat/completions`
      : `${errand.url}/api/agents/${agent}/stream?protocol=${protocol}`,
    headers: { ...json, authorization: `Bearer ${key.key}` },
    body: JSON.stringify({
      ...(isDoor ? { model: agent, stream: true } : {}),
      messages: [{ role: "user", content: "Hi" }],
    }),
  };
}

export const through = async (errand: Errand, key: Key, model: string, protocol?: string): Promise<Way> =>
  asking(errand, key, await createAgent(errand, key, model), protocol);

/** What a program needs to know for its agents to speak with a model server's words. */
export const speakingBy = (model: Server) => ({ OPENAI_BASE_URL: `${model.url}/v1` });

export async function withModelServer<T>(work: (model: Server) => Promise<T>): Promise<T> {
  const model = await server("model-server.ts");
  try {
    return await work(model);
  } finally {
    model.end();
  }
}

export const withModel = <T>(
  work: (place: { errand: Errand; key: Key; model: Server }) => Promise<T>,
): Promise<T> =>
  withModelServer((model) => withErrand((errand, key) => work({ errand, key, model }), speakingBy(model)));

// Streams open within the first second, and end as they began.
const OPENING_MS = 2_000;
const ENDING_MS = 1_500;

/**
 * With what a program used of one core while `work` went on, its beginning and end included, and `steady` between
 * them, when all streams are open.
 */
export async function watched<T>({ pid }: { pid: number }, work: () => Promise<T>) {
  let rss = 0;
  const looks: { at: number; us: number }[] = [];
  const look = setInterval(() => {
    rss = Math.max(rss, memory(pid));
    looks.push({ at: performance.now(), us: cpu(pid).all });
  }, 200);
  const before = cpu(pid).all;
  const began = performance.now();
  const result = await work();
  const ended = performance.now();
  const us = cpu(pid).all - before;
  clearInterval(look);
  const between = looks.filter(({ at }) => at > began + OPENING_MS && at < ended - ENDING_MS);
  const [first, last] = [between[0], between.at(-1)];
  const steady =
    first && last && last.at > first.at ? (last.us - first.us) / ((last.at - first.at) * 1_000) : 0;
  return { result, us, share: us / ((ended - began) * 1_000), steady, rss };
}
