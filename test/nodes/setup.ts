import { createEgress } from "../../src/egress/egress.ts";
import type { Answer, ModelRequest, Models } from "../../src/models/model.ts";
import type { NodeRun, NodeType } from "../../src/nodes/node.ts";
import { TestClock } from "../helpers/clock.ts";
import { unconfiguredMail } from "../helpers/mail.ts";

/** A server on loopback that answers with `answer` and keeps what it was sent. */
export function server(answer: (request: Request, body: string) => Response | Promise<Response>) {
  const got: { method: string; url: URL; headers: Record<string, string>; body: string }[] = [];
  const running = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const body = await request.text();
      got.push({
        method: request.method,
        url: new URL(request.url),
        headers: request.headers.toJSON(),
        body,
      });
      return answer(request, body);
    },
  });
  return { url: `http://127.0.0.1:${running.port}`, got, [Symbol.dispose]: () => void running.stop(true) };
}

/** A model that answers with the given texts in turn, and the requests it was sent. */
export function modelOf(...answers: (Partial<Answer> | Error)[]) {
  const asked: ModelRequest[] = [];
  const models: Models = {
    default_model: "test/usual",
    async complete(request) {
      asked.push(request);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return {
        text: "",
        finish_reason: "stop",
        usage: { prompt_tokens: 3, completion_tokens: 4 },
        ...answer,
      };
    },
    async *stream() {},
    list: () => [],
  };
  return { models, asked };
}

export function runWith(
  given: Partial<Pick<NodeRun, "egress" | "models" | "mail" | "connections" | "askAgent" | "signal">> = {},
): NodeRun & { close(): void } {
  const egress = given.egress ?? createEgress({ allow: ["loopback"] });
  return {
    egress,
    models: given.models ?? modelOf().models,
    mail: given.mail ?? unconfiguredMail(egress),
    connections: given.connections ?? { open: async () => undefined },
    askAgent:
      given.askAgent ?? (async () => ({ outcome: "failed", code: "NONE", message: "no agents here" })),
    clock: new TestClock(),
    signal: given.signal ?? new AbortController().signal,
    hop: 0,
    idempotencyKey: "execution/0",
    scope: { workspace_id: "w", project_id: "p" },
    close: () => egress.close(),
  };
}

/** Runs a node once, with nothing but what it is given. */
export async function run(type: NodeType, config: object, world = runWith()) {
  try {
    const result = await type.run(config as never, world);
    if ("waits" in result) throw new Error("the node waits");
    return result;
  } finally {
    world.close();
  }
}
