import { MOST_HOPS } from "../events/kinds.ts";
import type { Executions } from "../executions/service.ts";
import { CLAIM_MS } from "../hooks/store.ts";
import type { Clock } from "../lib/clock.ts";
import { AppError, type Fault } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { ModelTool, Usage } from "../models/model.ts";
import type { Workflows } from "../workflows/service.ts";
import type { TurnRow } from "./conversation-store.ts";
import { resolveTool } from "./resolve.ts";
import type { AgentTarget } from "./service.ts";

/** What an agent's calls reach beyond the model. */
export type ToolDeps = {
  agents: { target(id: string): Promise<AgentTarget | undefined> };
  workflows: Pick<Workflows, "target" | "definition">;
  executions: Pick<Executions, "start" | "wait">;
  clock: Clock;
};

/** Which agent calls: `path` leads to it (see StepRow), `ancestors` are the agents on the way, itself last. */
export type Place = { turn: TurnRow; path: string; ancestors: string[] };

/** What came of a call; `waiting`: somebody has to approve a call that the sub-agent makes. */
export type Outcome = Result | { kind: "waiting" };
export type Result = { kind: "result"; result: Json; is_error?: true; usage?: Usage };

export type Tool = ModelTool & {
  needsApproval: boolean;
  /** How long it may take; undefined: it keeps a limit of its own. */
  timeout_ms?: number;
  /** Every way in which arguments do not fit. */
  check(args: Json): Fault[];
  /** Throws when `signal` aborts. */
  run(args: JsonObject, call: { id: string; signal: AbortSignal }): Promise<Outcome>;
};

/** Lets a sub-agent answer `message`; the path of its own steps is the caller's with `call_id`. */
export type AskAgent = (
  agent: AgentTarget,
  message: string,
  call: { id: string; signal: AbortSignal },
) => Promise<Outcome>;

const USUAL_TIMEOUT_SECONDS = 120;
/** How deep sub-agents may stand below the agent spoken to. */
export const DEEPEST = 3;

/**
 * The tools of an agent as the model sees them: its workflows and its sub-agents,
 * and where it may close the conversation that it is spoken to in, that. What is gone or belongs to
 * another project is left out: an id was checked when it was written, and is again now.
 */
export async function toolsOf(
  deps: ToolDeps,
  agent: AgentTarget,
  place: Place,
  ask: AskAgent,
): Promise<Tool[]> {
  const tools: Tool[] = [];
  const names = new Set<string>();
  if (agent.settings.can_resolve && place.path === "" && place.turn.conversation_id) {
    names.add(resolveTool.name);
    tools.push(resolveTool);
  }
  for (const attached of agent.settings.tools) {
    const tool = await workflowTool(deps, agent, attached, place);
    if (tool) tools.push({ ...tool, name: uniqueName(tool.name, names) });
  }
  if (place.ancestors.length > DEEPEST) return tools;
  for (const attached of agent.settings.sub_agents) {
    const found = isUuid(attached.agent_id) ? await deps.agents.target(attached.agent_id) : undefined;
    if (found?.project_id !== agent.project_id || place.ancestors.includes(found.id)) continue;
    const tool = agentTool(found, attached.description, attached.timeout_seconds, ask);
    tools.push({ ...tool, name: uniqueName(tool.name, names) });
  }
  return tools;
}

type Attached = AgentTarget["settings"]["tools"][number];

async function workflowTool(
  { workflows, executions, clock }: ToolDeps,
  agent: AgentTarget,
  attached: Attached,
  place: Place,
): Promise<Tool | undefined> {
  const found = isUuid(attached.workflow_id) ? await workflows.target(attached.workflow_id) : undefined;
  if (found?.project_id !== agent.project_id) return undefined;
  const { input_schema, checkInput } = await workflows.definition(found.definition_hash);
  const fixed = (attached.input_config ?? {}) as JsonObject;
  const timeout_ms = (attached.timeout_seconds ?? USUAL_TIMEOUT_SECONDS) * 1_000;
  const { turn, path } = place;

  return {
    name: nameOf(found.name, "workflow"),
    description: attached.description || input_schema.description || `Runs the workflow "${found.name}".`,
    parameters: parametersOf(input_schema as JsonObject, fixed),
    needsApproval: attached.run_behavior === "request_confirmation",
    check: (args) => (isObject(args) ? checkInput({ ...(args as JsonObject), ...fixed }) : [NO_OBJECT]),

    async run(args, { id, signal }) {
      const hop = turn.hop + 1;
      if (hop > MOST_HOPS) return failure("LOOP", `This has come round ${turn.hop} times; it is a loop.`);
      const input = { ...args, ...fixed };
      const { conversation_id, id: turn_id } = turn;
      const answer = await executions.start(found, {
        input,
        source: "agent",
        metadata: {
          agent_id: agent.id,
          ...(conversation_id ? { conversation_id } : {}),
          turn_id,
          tool_call_id: id,
        },
        hop,
        // The same call of the same turn starts one run, whatever breaks off and begins again in between.
        idempotency: {
          scope: `turns/${turn_id}`,
          key: path ? `${path}/${id}` : id,
          request_hash: sha256Hex(JSON.stringify(input)),
          expires_at: clock.now() + CLAIM_MS,
        },
        answer: ({ execution_id }) => ({ status: 202, body: { execution_id } }),
      });
      const execution_id = String(answer.body["execution_id"]);
      const from = clock.now();
      const ended = await executions.wait(execution_id, timeout_ms, signal);
      signal.throwIfAborted();
      const hasEnded = ended !== undefined && ended.ended_at !== null;
      if (!hasEnded && clock.now() - from < timeout_ms) throw new Stopping();
      switch (ended?.state) {
        case "success":
          return { kind: "result", result: JSON.parse(ended.output ?? "null") as Json };
        case "failed":
        case "cancelled": {
          const error = JSON.parse(ended.error ?? "null") as { code: string; message: string } | null;
          return failure(error?.code ?? "FAILED", error?.message ?? "The workflow failed.", { execution_id });
        }
        default:
          return failure(
            "TIMEOUT",
            `The workflow had not ended after ${timeout_ms / 1_000} seconds; it goes on.`,
            {
              execution_id,
            },
          );
      }
    },
  };
}

const MESSAGE_SCHEMA: JsonObject = {
  type: "object",
  properties: {
    message: { type: "string", description: "What the agent is asked, with all that it needs to know." },
  },
  required: ["message"],
};

const agentTool = (
  agent: AgentTarget,
  description: string | undefined,
  timeout_seconds: number | undefined,
  ask: AskAgent,
): Tool => ({
  name: nameOf(`ask_${agent.name}`, "agent"),
  description: description || agent.description || `Asks the agent "${agent.name}".`,
  parameters: MESSAGE_SCHEMA,
  needsApproval: false,
  timeout_ms: (timeout_seconds ?? USUAL_TIMEOUT_SECONDS) * 1_000,
  check(args) {
    if (!isObject(args)) return [NO_OBJECT];
    const message = args["message"];
    return typeof message === "string" && message.trim() !== ""
      ? []
      : [{ field: "message", expected: "text", received: typeof message }];
  },
  run: (args, call) => ask(agent, String(args["message"]), call),
});

/** The program is going down: nobody waits for anything any more. */
export class Stopping extends Error {
  constructor() {
    super("the program is stopping");
    this.name = "Stopping";
  }
}

export const NO_OBJECT: Fault = { field: "", expected: "an object in JSON", received: "something else" };

/** What the model has to fill in: the workflow's schema without what the agent's owner has fixed. */
function parametersOf(schema: JsonObject, fixed: JsonObject): JsonObject {
  const { properties, required, ...rest } = withoutNotes(schema) as { [key: string]: Json };
  const isOpen = ([name]: [string, unknown]) => !Object.hasOwn(fixed, name);
  return {
    ...rest,
    type: "object",
    properties: Object.fromEntries(Object.entries((properties ?? {}) as JsonObject).filter(isOpen)),
    required: ((required ?? []) as string[]).filter((name) => isOpen([name, null])),
  };
}

// Hints for forms; some servers refuse keywords that they do not know.
function withoutNotes(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutNotes);
  if (!isObject(value)) return value;
  const entries = Object.entries(value as JsonObject).filter(
    ([key, child]) => child !== null && !(key === "ui_metadata" && isObject(child)),
  );
  return Object.fromEntries(entries.map(([key, child]) => [key, withoutNotes(child)]));
}

const LONGEST_NAME = 56; // of 64 that servers take, with room for a number

/** A name that every server takes. */
function nameOf(text: string, otherwise: string): string {
  const plain = text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "");
  const name = plain
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .slice(0, LONGEST_NAME);
  return name === "" || name === "ask" ? otherwise : name;
}

function uniqueName(name: string, taken: Set<string>): string {
  let unique = name;
  for (let n = 2; taken.has(unique); n++) unique = `${name}_${n}`;
  taken.add(unique);
  return unique;
}

/** A failure as the model is told it, so that it can do better or say so. */
export const failure = (code: string, message: string, more: JsonObject = {}): Result => ({
  kind: "result",
  result: { error: { code, message, ...more } },
  is_error: true,
});

/** Throws what is not the call's own failure. */
export function failureOf(error: unknown): Outcome {
  if (!(error instanceof AppError)) throw error;
  const faults = error.extra.faults?.map((fault) => ({ ...fault }));
  return failure(error.code.toUpperCase(), error.message, faults ? { faults } : {});
}

/** The most of a result that the model, the stream and the record are given, in bytes of JSON. */
export const LONGEST_RESULT = 32 * 1024;

/** A result of bounded size; where it was cut, it is text and says so. */
export function capped(result: Json): Json {
  const text = typeof result === "string" ? result : JSON.stringify(result);
  const size = Buffer.byteLength(text);
  if (size <= LONGEST_RESULT) return result;
  const kept = new TextDecoder().decode(Buffer.from(text).subarray(0, LONGEST_RESULT)).replace(/\uFFFD$/, "");
  return `${kept}\n[cut: ${LONGEST_RESULT} of ${size} bytes]`;
}
