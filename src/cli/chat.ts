import { readFileSync } from "node:fs";
import { createInterface, type Interface } from "node:readline/promises";
import { prefixOf } from "../config.ts";
import { newId } from "../lib/ids.ts";
import { printable, printableLines } from "../lib/terminal.ts";
import type { Services } from "../services.ts";
import { type Asked, type ChatClient, chatClient, type Part } from "./chat-client.ts";
import { type Call, callersOf, configOf, text, withServices } from "./command.ts";
import { EXIT, ExitError, usageError } from "./exit.ts";
import { putJson } from "./output.ts";

type Agent = { id: string; name: string; workspace_id: string; project_id: string };

/**
 * Talks to an agent as a chat client does: with the server that runs on the folder, else with one of this
 * process for as long as it takes. What the agent says is the data, everything else is words.
 */
export async function chat(call: Call): Promise<number> {
  const message = call.args[1] ?? (process.stdin.isTTY ? undefined : readFileSync(0, "utf8"));
  if (message === undefined && call.flags["json"])
    throw usageError("--json needs a message", "give it behind the agent, or by standard input");
  if (message?.trim() === "") throw usageError("the message is empty");
  const { agent, key } = await withServices(call, (services) => prepared(call, services));
  const giveBack = () => withServices(call, ({ keys }) => keys.admin.endLent(key.id));
  const end = () => void giveBack().finally(() => process.exit(EXIT.forced));
  for (const signal of LEAVING) process.once(signal, end);
  try {
    const { url, close } = await reached(call);
    try {
      const conversation = text(call.flags, "conversation") ?? `cli-${newId()}`;
      const client = await chatClient({ url, key: key.key, agent: agent.id, conversation });
      const talk = { call, client, end };
      return message === undefined ? await converse(talk, agent) : await answerOnce(talk, message);
    } finally {
      await close();
    }
  } finally {
    for (const signal of LEAVING) process.off(signal, end);
    await giveBack();
  }
}

/** `end`: leaves at once, and without the key. */
type Talk = { call: Call; client: ChatClient; end(): void };

// Of a terminal that is closed, and of whoever wants the program gone.
const LEAVING = ["SIGHUP", "SIGTERM"] as const;

const DAY_MS = 86_400_000;

/** The agent by its id or its name, and a key of its project for as long as this takes. */
async function prepared(call: Call, services: Services) {
  const { agents, keys } = services;
  const named = call.args[0]!;
  const found: Agent[] = [];
  for (const caller of await callersOf(call, services)) {
    const { workspace_id } = caller;
    const { items } = await agents.list(caller, { workspace_id, limit: 1_000, offset: 0 });
    found.push(...items.filter(({ id, name }) => id === named || name === named));
  }
  const [agent, another] = found;
  if (!agent) throw new ExitError(EXIT.refused, `no agent ${named}`, "see errand agents list");
  if (another) throw new ExitError(EXIT.refused, `several agents are named ${named}`, "give its id");
  const { workspace_id, project_id } = agent;
  const key = await keys.admin.lend({ name: "errand chat", workspace_id, project_id, for_ms: DAY_MS });
  return { agent, key };
}

/** Where to talk: the running server, or one of this process on a port of its own. */
async function reached(call: Call): Promise<{ url: string; close(): Promise<void> }> {
  const { config, origins } = configOf(call);
  const holder = (await call.program.folder()).holder(config.data);
  if (holder?.url) return { url: holder.url, close: async () => {} };
  if (holder)
    throw new ExitError(EXIT.busy, `${config.data} is in use, but not by a server that answers yet`);
  const own = { ...config, host: "127.0.0.1", port: 0, access_log: false, rate_limit: 0 };
  if (origins.log_level.from === "default") own.log_level = "error";
  const app = await call.program.createApp(own);
  const { url } = await app.listen();
  return { url: url + prefixOf(own), close: async () => void (await app.stop()) };
}

async function answerOnce(talk: Talk, message: string): Promise<number> {
  const { call } = talk;
  const told = await tell(talk, message);
  if (call.flags["json"]) putJson(call.output, told.record);
  return told.code;
}

async function converse(talk: Talk, { name }: Agent): Promise<number> {
  const { output } = talk.call;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  output.words(`talking to ${printable(name)}; Ctrl-C stops an answer, Ctrl-D ends\n`);
  try {
    for (;;) {
      const asked = await line(terminal, "> ");
      if (asked === undefined) {
        output.words("\n");
        return EXIT.ok;
      }
      if (asked.trim() === "") continue;
      const { code } = await tell(talk, asked, terminal);
      if (code === EXIT.refused) return code;
    }
  } finally {
    terminal.close();
  }
}

/** A line typed; undefined where there are no more, or Ctrl-C was pressed. */
function line(terminal: Interface, prompt: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const end = () => resolve(undefined);
    terminal.once("close", end);
    terminal.once("SIGINT", end);
    void terminal.question(prompt).then(
      (typed) => {
        terminal.off("close", end);
        terminal.off("SIGINT", end);
        resolve(typed);
      },
      () => end(),
    );
  });
}

type Told = { code: number; record: Record<string, unknown> };

/** One message and all that follows from it, approvals included. */
async function tell({ call, client, end }: Talk, message: string, terminal?: Interface): Promise<Told> {
  const { output, flags } = call;
  const answer = new Answer(call);
  const first = () => {
    answer.isStopped = true;
    output.words("\nstopping; again to end at once\n");
    void client.stop();
  };
  const stop = onInterrupt(terminal, first, end);
  try {
    let parts: AsyncIterable<Part> | undefined = client.say(message);
    while (parts) {
      for await (const part of parts) answer.take(part);
      parts = undefined;
      const waiting = answer.waiting.splice(0);
      for (const asked of waiting) {
        const approved = flags["yes"] === true || (await isAllowed(asked, terminal));
        if (approved === undefined) {
          const hint = "say --yes, or talk in a terminal";
          throw new ExitError(
            EXIT.refused,
            `${asked.tool_name} waits for approval ${asked.approval_id}`,
            hint,
          );
        }
        await client.decide(asked.approval_id, approved);
        parts = client.goOn();
      }
    }
  } finally {
    stop();
    answer.end();
  }
  if (answer.error !== undefined) {
    if (!terminal) throw new ExitError(EXIT.failed, answer.error);
    output.words(`error: ${printable(answer.error)}\n`);
  }
  const code = answer.isStopped && !terminal ? EXIT.forced : EXIT.ok;
  return { code, record: { conversation_id: client.conversation, ...answer.record() } };
}

/** Undefined: there is nobody to ask. */
async function isAllowed({ tool_name, args }: Asked, terminal?: Interface): Promise<boolean | undefined> {
  if (!terminal) return undefined;
  const typed = await line(
    terminal,
    `${printable(tool_name)}(${printable(JSON.stringify(args))}): run it? [y/N] `,
  );
  return /^y(es)?$/i.test(typed?.trim() ?? "");
}

/** The first Ctrl-C stops the answer, a second one ends the program. */
function onInterrupt(terminal: Interface | undefined, stop: () => void, end: () => void): () => void {
  let presses = 0;
  const press = () => {
    presses++;
    if (presses > 2) process.exit(EXIT.forced);
    else if (presses > 1) end();
    else stop();
  };
  process.on("SIGINT", press);
  terminal?.on("SIGINT", press);
  return () => {
    process.off("SIGINT", press);
    terminal?.off("SIGINT", press);
  };
}

/** What has come of an answer, told as it comes. */
class Answer {
  readonly waiting: Asked[] = [];
  error: string | undefined;
  isStopped = false;
  readonly #call: Call;
  readonly #calls = new Map<string, Record<string, unknown>>();
  #reply = "";
  #reason = "";
  #usage: unknown = null;

  constructor(call: Call) {
    this.#call = call;
  }

  take(part: Part): void {
    const { output, flags } = this.#call;
    switch (part.type) {
      case "text":
        this.#reply += part.text;
        if (!flags["json"]) output.data(printableLines(part.text));
        break;
      case "call":
        this.#calls.set(part.id, { name: part.name, args: part.args });
        this.#words(`→ ${part.name} ${JSON.stringify(part.args)}`);
        break;
      case "result": {
        const made = this.#calls.get(part.id);
        if (made) made["result"] = part.result;
        this.#words(`← ${JSON.stringify(part.result)}`);
        break;
      }
      case "approval":
        this.waiting.push(part);
        break;
      case "error":
        this.error = part.message;
        break;
      case "finish":
        this.#reason = part.reason;
        this.#usage = part.usage;
        break;
    }
  }

  end(): void {
    if (this.#reply !== "" && !this.#call.flags["json"] && !this.#reply.endsWith("\n"))
      this.#call.output.data("\n");
  }

  record(): Record<string, unknown> {
    const calls = [...this.#calls.values()];
    return { reply: this.#reply, calls, finish_reason: this.#reason, usage: this.#usage };
  }

  #words(text: string): void {
    this.#call.output.words(`${printable(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)}\n`);
  }
}

const LONGEST = 500;
