import { afterEach } from "bun:test";
import { createEgress } from "../../src/egress/egress.ts";
import { Beat } from "../../src/lib/beat.ts";
import { createModels, type ModelConfig } from "../../src/models/index.ts";
import type { ModelPart, ModelRequest, Models } from "../../src/models/model.ts";
import { TestClock } from "../helpers/clock.ts";
import { chatServer } from "./chat-server.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** The models of an installation whose OPENAI_BASE_URL is a scripted server. */
export function setup(more: ModelConfig = { openai_api_key: "sk-secret" }) {
  const server = chatServer();
  const clock = new TestClock();
  const egress = createEgress({ beat: new Beat(clock) });
  const config = {
    openai_base_url: server.url,
    anthropic_base_url: server.url,
    vllm_base_url: server.url,
    ...more,
  };
  closing.push(server.close, egress.close);
  return { server, egress, clock, models: createModels({ config, egress, clock }) };
}

export const asked = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  model: "openai/m",
  messages: [{ role: "user", content: "Hi" }],
  signal: new AbortController().signal,
  ...more,
});

/** Every part, and what was thrown at the end. */
export async function collect(models: Models, request = asked()) {
  const parts: ModelPart[] = [];
  try {
    for await (const part of models.stream(request)) parts.push(part);
    return { parts, error: undefined };
  } catch (error) {
    return { parts, error: error as Error & { code?: string; retryable?: boolean } };
  }
}

/** Moves the clock second by second until `promise` is kept: what waits on it waits for real sockets too. */
export async function moved(
  clock: { advance(ms: number): Promise<void> },
  promise: Promise<unknown>,
  step = 1_000,
): Promise<void> {
  let isKept = false;
  void promise.then(() => {
    isKept = true;
  });
  for (let n = 0; n < 1_000 && !isKept; n++) await clock.advance(step);
}
