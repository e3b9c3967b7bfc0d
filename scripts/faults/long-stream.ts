/**
 * Lets a model speak for half an hour, a word every ten seconds and once nothing for four minutes, to readers of
 * every protocol, one of them a reader who comes back after its connection broke; then looks whether each has every
 * word once and in order, and how long it was ever left without a byte.
 *
 *     scripts/faults/long-stream [--minutes 30] [--every 10] [--silence 240] [--json]
 *
 * Exit code 0 when every reader has the whole answer and its proper end; else 1.
 */
import { parseArgs } from "node:util";
import { createKey, discard, type Errand, scratch, startErrand } from "../lib/errand.ts";

const { values: flags } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    every: { type: "string", default: "10" },
    silence: { type: "string", default: "240" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (flags.help) {
  console.log("usage: scripts/faults/long-stream [--minutes 30] [--every 10] [--silence 240] [--json]");
  process.exit(0);
}
const EVERY_S = Number(flags.every);
const SILENCE_S = Number(flags.silence);
const WORDS = Math.max(2, Math.floor((Number(flags.minutes) * 60 - SILENCE_S) / EVERY_S));

/** One word after the other, and in the middle nothing for long. */
const model = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  idleTimeout: 0,
  async fetch(request) {
    await request.text();
    async function* answer() {
      const event = (chunk: object) => `data: ${JSON.stringify(chunk)}\n\n`;
      for (let n = 0; n < WORDS; n++) {
        yield event({ choices: [{ index: 0, delta: { content: `<${n}>` }, finish_reason: null }] });
        await Bun.sleep((n === WORDS >> 1 ? SILENCE_S : EVERY_S) * 1_000);
      }
      yield `${event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`;
    }
    return new Response(answer() as unknown as BodyInit, {
      headers: { "content-type": "text/event-stream" },
    });
  },
});

export type Report = {
  reader: string;
  words: number;
  isWhole: boolean;
  hasEnded: boolean;
  minutes: number;
  longest_silence_s: number;
  error?: string;
};

const WANTED = Array.from({ length: WORDS }, (_, n) => `<${n}>`).join("");

async function read(reader: string, end: string, open: () => Promise<Response>): Promise<Report> {
  const began = performance.now();
  let last = began;
  let silence = 0;
  let text = "";
  let error: string | undefined;
  try {
    const response = await open();
    const decoder = new TextDecoder();
    for await (const bytes of response.body!) {
      text += decoder.decode(bytes, { stream: true });
      silence = Math.max(silence, performance.now() - last);
      last = performance.now();
    }
  } catch (failure) {
    error = String(failure);
  }
  // The responses' last events repeat the whole; what came as it was said is what counts.
  const said = (text.split("output_text.done")[0] ?? "").match(/<\d+>/g) ?? [];
  return {
    reader,
    words: said.length,
    isWhole: said.join("") === WANTED,
    hasEnded: text.includes(end),
    minutes: (performance.now() - began) / 60_000,
    longest_silence_s: silence / 1_000,
    ...(error ? { error } : {}),
  };
}

async function readers(errand: Errand, key: string, workspace: string): Promise<Report[]> {
  const { body: agent } = await errand.api<{ id: string }>("POST", `/api/agents?workspace_id=${workspace}`, {
    name: "Slow",
    model: "openai/slow",
    auto_generate_title: false,
    model_config: { time_limits: { between_tokens_seconds: SILENCE_S + 60, total_seconds: 3_600 } },
  });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const post = (path: string, body: object) => () =>
    fetch(errand.url + path, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      timeout: false,
    } as RequestInit);
  const at = `/api/agents/${agent.id}/stream`;
  const messages = [{ role: "user", content: "Hi" }];
  const comesBack = async () => {
    const leaving = new AbortController();
    const id = "comes-back-to-a-long-answer";
    await fetch(errand.url + at, {
      method: "POST",
      headers,
      body: JSON.stringify({ id, messages }),
      signal: leaving.signal,
    });
    await Bun.sleep(EVERY_S * 3_000);
    leaving.abort();
    await Bun.sleep(EVERY_S * 3_000);
    return fetch(`${errand.url}${at}?chatId=${id}`, { headers, timeout: false } as RequestInit);
  };
  return Promise.all([
    read("data stream", "\nd:{", post(at, { messages })),
    read("UI message stream", "[DONE]", post(`${at}?protocol=ui-message-stream`, { messages })),
    read("comes back", "\nd:{", comesBack),
    read(
      "chat completions",
      "[DONE]",
      post("/api/chat/completions", { model: agent.id, messages, stream: true }),
    ),
    read(
      "responses",
      "response.completed",
      post("/api/responses", { model: agent.id, input: "Hi", stream: true }),
    ),
  ]);
}

const data = scratch();
const key = await createKey(data);
const errand = await startErrand({
  data,
  key,
  env: { OPENAI_BASE_URL: `http://127.0.0.1:${model.port}/v1`, ERRAND_ALLOW_TARGETS: "127.0.0.1" },
});
let isFine = false;
try {
  const reports = await readers(errand, key.key, key.workspace_id);
  isFine = reports.every(({ isWhole, hasEnded, error }) => isWhole && hasEnded && !error);
  if (flags.json) console.log(JSON.stringify(reports, undefined, 2));
  else
    for (const { reader, words, isWhole, hasEnded, minutes, longest_silence_s, error } of reports) {
      const end = hasEnded ? "ended properly" : "no proper end";
      const whole = isWhole ? "every one once and in order" : "NOT whole";
      console.log(
        `${reader}: ${words} words, ${whole}, ${end}, ${minutes.toFixed(1)} min, longest silence ${longest_silence_s.toFixed(1)} s${error ? `, ${error}` : ""}`,
      );
    }
} finally {
  await errand.stop();
  await model.stop(true);
  discard(data);
}
process.exit(isFine ? 0 : 1);
