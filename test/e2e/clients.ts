import { createRequire } from "node:module";
import * as ai5 from "ai-v5";
import * as ai6 from "ai-v6";
import * as ai7 from "ai-v7";
import { AssistantMessageAccumulator, DataStreamDecoder, UIMessageStreamDecoder } from "assistant-stream";

/** What a client has shown its user at the end of an answer. */
export type Shown = {
  text: string;
  reasoning: string;
  /** What the server said beside the answer. */
  data: unknown[];
  tools: { name: string; args: unknown; result: unknown }[];
  error?: string;
};

/** One conversation as the client keeps it. */
export type Chat = {
  say(text: string): Promise<Shown>;
  /** The answer under way, by a client that was not there when it began; undefined: there is none. */
  resume?(): Promise<Shown | undefined>;
  /** The last answer once more. */
  regenerate?(): Promise<Shown>;
};

/** `joined` is called when a client that resumes has its answer's head. */
export type Place = { api: string; headers: Record<string, string>; id: string; joined?: () => void };
export type Client = { name: string; reasons: boolean; chat(place: Place): Chat };

type Part = {
  type: string;
  text?: string;
  reasoning?: string;
  data?: unknown;
  toolName?: string;
  input?: unknown;
  output?: unknown;
  toolInvocation?: { toolName: string; args: unknown; result?: unknown };
  args?: unknown;
  result?: unknown;
};
type Message = {
  id?: string;
  role: string;
  content?: string;
  reasoning?: string;
  parts?: Part[];
  toolInvocations?: { toolName: string; args: unknown; result?: unknown }[];
};

const wordsOf = (parts: Part[], type: string): string =>
  parts
    .filter((part) => part.type === type)
    .map((part) => part.text ?? part.reasoning ?? "")
    .join("");

/** AI SDK 4.0 makes a message of each step. */
const oneOf = (steps: Message[]): Message => ({
  role: "assistant",
  content: steps.map(({ content }) => content ?? "").join(""),
  toolInvocations: steps.flatMap(({ toolInvocations }) => toolInvocations ?? []),
});

// AI SDK 4: its hooks are a thin layer over callChatApi of the package @ai-sdk/ui-utils.

type Update = { message: Message; data?: unknown[] };
type CallChatApi = (options: {
  api: string;
  body: object;
  headers: Record<string, string>;
  streamProtocol: "data";
  requestType?: "resume";
  restoreMessagesOnFailure(): void;
  onResponse(): void;
  onUpdate(update: Update | Message[], data?: unknown[]): void;
  onFinish(): void;
  generateId(): string;
  lastMessage?: Message;
}) => Promise<void>;

function ai4(name: string, { reasons = true, resumes = false } = {}): Client {
  const { resolve } = createRequire(import.meta.url);
  const { callChatApi } = createRequire(resolve(name))("@ai-sdk/ui-utils") as { callChatApi: CallChatApi };
  return {
    name,
    reasons,
    chat({ api, headers, id, joined }) {
      const messages: Message[] = [];
      async function ask(requestType?: "resume"): Promise<Shown> {
        let answer: Message | undefined;
        let data: unknown[] = [];
        const shown = (): Shown => ({
          text: answer?.content ?? "",
          reasoning: wordsOf(answer?.parts ?? [], "reasoning"),
          data,
          tools: (
            answer?.toolInvocations ??
            (answer?.parts ?? []).flatMap((part) => (part.toolInvocation ? [part.toolInvocation] : []))
          ).map((call) => ({ name: call.toolName, args: call.args, result: call.result })),
        });
        try {
          await callChatApi({
            api,
            body: { id, messages },
            headers,
            streamProtocol: "data",
            ...(requestType ? { requestType } : {}),
            restoreMessagesOnFailure() {},
            onResponse: () => joined?.(),
            onUpdate(update, more) {
              answer = Array.isArray(update) ? oneOf(update) : update.message;
              data = (Array.isArray(update) ? more : update.data) ?? data;
            },
            onFinish() {},
            generateId: () => crypto.randomUUID(),
            ...(messages.length > 0 ? { lastMessage: messages.at(-1)! } : {}),
          });
        } catch (error) {
          return { ...shown(), error: (error as Error).message };
        }
        if (answer) messages.push(answer);
        return shown();
      }
      return {
        say(text) {
          messages.push({ role: "user", content: text, parts: [{ type: "text", text }] });
          return ask();
        },
        regenerate() {
          messages.pop();
          return ask();
        },
        ...(resumes ? { resume: () => ask("resume") } : {}),
      };
    },
  };
}

// AI SDK 5 and later: AbstractChat over DefaultChatTransport, as its hooks use them.

type State = {
  status: string;
  error: Error | undefined;
  messages: Message[];
  pushMessage(message: Message): void;
  popMessage(): void;
  replaceMessage(index: number, message: Message): void;
  snapshot<T>(thing: T): T;
};
type ChatLike = {
  sendMessage(message: object, options?: object): Promise<void>;
  regenerate(): Promise<void>;
  resumeStream(): Promise<void>;
};
type Sdk = {
  AbstractChat: new (init: object) => ChatLike;
  DefaultChatTransport: new (options: object) => object;
};

export const newState = (): State => ({
  status: "ready",
  error: undefined,
  messages: [],
  pushMessage(message) {
    this.messages = [...this.messages, message];
  },
  popMessage() {
    this.messages = this.messages.slice(0, -1);
  },
  replaceMessage(index, message) {
    this.messages = this.messages.map((each, at) => (at === index ? message : each));
  },
  snapshot: (thing) => structuredClone(thing),
});

function aiUi(name: string, sdk: Sdk): Client {
  return {
    name,
    reasons: true,
    chat({ api, headers, id, joined }) {
      const state = newState();
      const data: unknown[] = [];
      const transport = new sdk.DefaultChatTransport({
        api,
        headers,
        async fetch(input: string, init: RequestInit) {
          const response = await fetch(input, init);
          joined?.();
          return response;
        },
      });
      const chat = new (class extends sdk.AbstractChat {})({
        id,
        state,
        transport,
        onData: (part: Part) => data.push(part.data),
      });
      const shown = (): Shown => {
        const last = state.messages.at(-1);
        const parts = (last?.role === "assistant" ? last.parts : undefined) ?? [];
        return {
          text: wordsOf(parts, "text"),
          reasoning: wordsOf(parts, "reasoning"),
          data: data.splice(0),
          tools: parts
            .filter((part) => part.type === "dynamic-tool")
            .map((part) => ({ name: part.toolName!, args: part.input, result: part.output })),
          ...(state.error ? { error: state.error.message } : {}),
        };
      };
      const quietly = async (asked: Promise<void>) => {
        await asked.catch((error) => {
          state.error ??= error as Error;
        });
        return shown();
      };
      return {
        say: (text) => quietly(chat.sendMessage({ text })),
        regenerate: () => quietly(chat.regenerate()),
        async resume() {
          await chat.resumeStream();
          return state.messages.length > 0 ? shown() : undefined;
        },
      };
    },
  };
}

// assistant-ui reads either protocol, by the header that says which.

function assistantUi(name: string, trigger: object): Client {
  return {
    name,
    reasons: true,
    chat({ api, headers, id }) {
      return {
        async say(text) {
          const response = await fetch(api, {
            method: "POST",
            headers: { ...headers, "content-type": "application/json" },
            body: JSON.stringify({
              ...trigger,
              threadId: id,
              system: "",
              tools: {},
              messages: [{ role: "user", content: [{ type: "text", text }] }],
            }),
          });
          const decoder =
            response.headers.get("x-vercel-ai-data-stream") === "v1"
              ? new DataStreamDecoder()
              : new UIMessageStreamDecoder();
          let message: Message & { content?: unknown; status?: { error?: unknown } } = { role: "assistant" };
          let error: string | undefined;
          try {
            const read = response
              .body!.pipeThrough(decoder as never)
              .pipeThrough(new AssistantMessageAccumulator() as never);
            for await (const each of read as AsyncIterable<typeof message>) message = each;
          } catch (thrown) {
            error = (thrown as Error).message;
          }
          error ??= message.status?.error === undefined ? undefined : JSON.stringify(message.status.error);
          const parts = message.parts ?? [];
          const metadata = (message as { metadata?: { unstable_data?: unknown[] } }).metadata;
          return {
            text: wordsOf(parts, "text"),
            reasoning: wordsOf(parts, "reasoning"),
            data: [...(metadata?.unstable_data ?? []), ...parts.filter(({ type }) => type === "data")],
            tools: parts
              .filter(({ type }) => type === "tool-call")
              .map(({ toolName, args, result }) => ({ name: toolName!, args, result })),
            ...(error === undefined ? {} : { error }),
          };
        },
      };
    },
  };
}

/** Every kind of chat client there is tests for; 4.0 came before reasoning, 4.3 is the first to resume. */
export const clients: Client[] = [
  ai4("ai-v4-0", { reasons: false }),
  ai4("ai-v4-1"),
  ai4("ai-v4-2"),
  ai4("ai-v4", { resumes: true }),
  aiUi("ai-v5", ai5 as unknown as Sdk),
  aiUi("ai-v6", ai6 as unknown as Sdk),
  aiUi("ai-v7", ai7 as unknown as Sdk),
  assistantUi("assistant-stream, data stream", {}),
  assistantUi("assistant-stream, UI messages", { trigger: "submit-message" }),
];
