import http, { type IncomingMessage } from "node:http";
import { createInterface } from "node:readline";
import type { Json } from "../lib/json.ts";
import { EXIT, ExitError } from "./exit.ts";

/** A call that waits for somebody's yes or no. */
export type Asked = { type: "approval"; approval_id: string; tool_name: string; args: Json };

/** What a chat client is told, of the data stream's lines. */
export type Part =
  | { type: "text"; text: string }
  | { type: "call"; id: string; name: string; args: Json }
  | { type: "result"; id: string; result: Json }
  | Asked
  | { type: "error"; message: string }
  | { type: "finish"; reason: string; usage: Json };

export type ChatClient = {
  conversation: string;
  say(text: string): AsyncIterable<Part>;
  /** The answer that went on after an approval. */
  goOn(): AsyncIterable<Part>;
  decide(approval_id: string, approved: boolean): Promise<void>;
  /** Ends the answer under way; what has come is kept. */
  stop(): Promise<void>;
};

type Place = { url: string; key: string; agent: string; conversation: string };

/** Talks to an agent of a server on this machine. `url`: with the interface's prefix, or without. */
export async function chatClient({ url, key, agent, conversation }: Place): Promise<ChatClient> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };

  async function ask(method: string, path: string, body?: object): Promise<IncomingMessage> {
    const answer = await open(method, path, headers, body);
    if ((answer.statusCode ?? 500) < 300) return answer;
    const said = await wholeOf(answer);
    throw new ExitError(EXIT.refused, messageIn(said) ?? `the server answered ${answer.statusCode}`);
  }

  const base = await prefixed(url, headers);
  const at = `${base}/agents/${agent}`;
  const named = encodeURIComponent(conversation);

  return {
    conversation,
    async *say(content) {
      const body = { id: conversation, messages: [{ role: "user", content }] };
      yield* partsOf(await ask("POST", `${at}/stream`, body));
    },
    async *goOn() {
      const answer = await ask("GET", `${at}/stream?chatId=${named}&ended=true`);
      if (answer.statusCode !== 204) yield* partsOf(answer);
    },
    async decide(approval_id, approved) {
      const path = `${at}/conversations/${named}/approvals/${encodeURIComponent(approval_id)}`;
      await wholeOf(await ask("POST", path, { approved }));
    },
    async stop() {
      await wholeOf(await ask("POST", `${at}/conversations/${named}/stop`));
    },
  };
}

/** A server that is meant for others than this machine has another prefix. */
async function prefixed(url: string, headers: Record<string, string>): Promise<string> {
  if (new URL(url).pathname !== "/") return url.replace(/\/$/, "");
  const bare = url.replace(/\/$/, "");
  const answer = await open("GET", `${bare}/api/me`, headers);
  await wholeOf(answer);
  return answer.statusCode === 404 ? `${bare}/v1` : `${bare}/api`;
}

// Not fetch: a proxy of the environment is not for this machine's own server, and an answer may take its time.
function open(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: object,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const length = sent === undefined ? {} : { "content-length": String(Buffer.byteLength(sent)) };
    const request = http.request(url, { method, headers: { ...headers, ...length } }, resolve);
    request.on("error", (error) =>
      reject(
        new ExitError(EXIT.failed, `the server at ${new URL(url).origin} does not answer: ${error.message}`),
      ),
    );
    request.end(sent);
  });
}

async function wholeOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  answer.setEncoding("utf8");
  for await (const chunk of answer) text += chunk;
  return text;
}

function messageIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { error?: { message?: string } }).error?.message;
  } catch {
    return undefined;
  }
}

async function* partsOf(answer: IncomingMessage): AsyncGenerator<Part> {
  let hasEnded = false;
  for await (const line of createInterface({ input: answer, crlfDelay: Number.POSITIVE_INFINITY })) {
    for (const part of partsIn(line)) {
      hasEnded ||= part.type === "finish";
      yield part;
    }
  }
  if (!hasEnded) throw new ExitError(EXIT.failed, "the server went away in the middle of the answer");
}

type Line = {
  toolCallId: string;
  toolName: string;
  args: Json;
  result: Json;
  finishReason: string;
  usage: { promptTokens: number; completionTokens: number } | null;
};

const usageOf = ({ usage }: Line): Json =>
  usage && { prompt_tokens: usage.promptTokens, completion_tokens: usage.completionTokens };

function partsIn(line: string): Part[] {
  if (line === "") return [];
  const value: unknown = JSON.parse(line.slice(2));
  const given = value as Line;
  switch (line[0]) {
    case "0":
      return [{ type: "text", text: String(value) }];
    case "9":
      return [{ type: "call", id: given.toolCallId, name: given.toolName, args: given.args }];
    case "a":
      return [{ type: "result", id: given.toolCallId, result: given.result }];
    case "2":
      return (value as { type?: string }[])
        .filter(({ type }) => type === "approval_request")
        .map((asked) => ({ ...(asked as Asked), type: "approval" }));
    case "3":
      return [{ type: "error", message: String(value) }];
    case "d":
      return [{ type: "finish", reason: given.finishReason, usage: usageOf(given) }];
    default:
      return [];
  }
}
