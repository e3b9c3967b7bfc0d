import type { Static, TSchema } from "typebox";
import type { ConnectionType, OpenConnection } from "../connections/types.ts";
import type { Egress } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import type { Fault } from "../lib/errors.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { Schema } from "../lib/schema.ts";
import { json } from "../lib/schema.ts";
import type { Mail } from "../mail/mail.ts";
import type { Models } from "../models/model.ts";

/** What a node may use of the world. */
export type NodeServices = {
  egress: Egress;
  models: Models;
  mail: Pick<Mail, "send">;
  /** Named credentials of a project, by name or id; undefined where there is none. */
  connections: { open(project_id: string, ref: string): Promise<OpenConnection | "foreign" | undefined> };
  /** Puts a message to an agent and waits for its reply. */
  askAgent: AskAgent;
  clock: Clock;
};

export type AskAgent = (question: {
  scope: { workspace_id: string; project_id: string };
  agent_id: string;
  message: string;
  /** Threads messages into one conversation; a new one without it. */
  conversation_id?: string;
  user_id?: string;
  hop: number;
  /** Asked again with the same key, it waits for the answer that is on its way already. */
  idempotencyKey: string;
  /**
   * The execution to be woken when the answer is there: `waiting` is answered meanwhile, and `turn_id` given
   * back asks for the same answer. Without it the answer is waited for here.
   */
  asked_by?: string | undefined;
  turn_id?: string | undefined;
  signal: AbortSignal;
}) => Promise<
  | { outcome: "waiting"; turn_id: string }
  | { outcome: "answered"; reply: string; conversation_id: string; turn_id: string }
  | { outcome: "failed"; code: string; message: string }
>;

export type NodeRun = NodeServices & {
  /** Aborted by cancellation, by the step's time limit and by a shutdown. */
  signal: AbortSignal;
  /** How often what led here has left Errand and come back; goes along, one more, with what leaves it. */
  hop: number;
  /** The same on every attempt of this step; to be sent with whatever has an effect elsewhere. */
  idempotencyKey: string;
  scope: { workspace_id: string; project_id: string };
  /** The execution, where it is stored and its node may answer `waits`: the run is then put down. */
  asked_by?: string | undefined;
  /** What the node answered when it last waited; it is called anew once what it waits for has come. */
  waited?: Json | undefined;
};

/** The node waits for something that will wake the run; `waits` is kept for it until then. */
export type NodeWait = { waits: JsonObject };

export type NodeResult = { output: Json; tokens?: number; external_calls?: number };

export type Retries = { max_attempts: number; delay_seconds: number; backoff_multiplier: number };

/** A list of nodes inside of another node's `input_config`; `path` leads to it from there. */
export type NestedList = {
  path: string;
  nodes: unknown;
  /** What its templates can name besides: `loop`, say. */
  names: string[];
};

/** A node that the interpreter itself carries out: it decides what else runs, when, and whether at all. */
export type Flow = {
  /** May run before the workflow's start is on record: it neither waits nor starts anything. */
  quick: boolean;
  /** Fields that are taken as they stand: what runs is not for a template to say. */
  fixed: string[];
  /** Conditions in it, whose fields name what they look at. */
  conditions?(config: Record<string, unknown>): { path: string; when: unknown }[];
  lists(config: Record<string, unknown>): NestedList[];
};

export type NodeType<T extends TSchema = TSchema> = {
  /** `node_type_name` in a workflow. */
  name: string;
  title: string;
  description: string;
  /**
   * none: may be repeated freely. idempotent: repeating it with the same key changes nothing more.
   * external: it does something elsewhere that a repeat might do twice.
   */
  effect: "none" | "idempotent" | "external";
  /** `input_config` without `_options`, rendered. */
  input: Schema<T>;
  output: TSchema;
  /** What the schema cannot say of a configuration, asked when a workflow is saved. Texts may be templates yet. */
  check?(config: Record<string, unknown>): Fault[];
  /** The types of connection that its `connection` may name. */
  connections?: ConnectionType[];
  /** Where the workflow says nothing; without it a step has one attempt. */
  retries?: Retries;
  flow?: Flow;
  /** What it does, where that is done on the spot with nothing but the input: neither waits nor asks anybody. */
  now?(input: Static<T>): NodeResult;
  run(input: Static<T>, run: NodeRun): Promise<NodeResult | NodeWait> | NodeResult;
};

type Common<T extends TSchema> = Omit<NodeType<T>, "input" | "now" | "run"> & { input: T };
type Definition<T extends TSchema> = Common<T> & Pick<NodeType<T>, "run">;
// Nobody marks it, redacts its input or gives it a connection.
type NowDefinition<T extends TSchema> = Common<T> &
  Required<Pick<NodeType<T>, "now">> & { effect: "none"; connections?: never; flow?: never };

/** A node type, with one of `run` and `now`. What they throw is the step's failure. */
export function defineNode<T extends TSchema>(definition: Definition<T> | NowDefinition<T>): NodeType {
  const input = json(definition.input);
  const { connections, check } = definition;
  function refuseFaulty(config: Static<T>): void {
    const fault = input.faults(config)[0];
    if (!fault) return;
    const { field, expected, received } = fault;
    throw new NodeError(
      "INVALID_CONFIG",
      `${field || "input_config"}: expected ${expected}, received ${received}`,
    );
  }
  return {
    ...definition,
    input,
    ...(connections
      ? { check: (config: JsonObject) => [...connectionFaults(config), ...(check?.(config) ?? [])] }
      : {}),
    ...("now" in definition
      ? {
          now(config: Static<T>) {
            refuseFaulty(config);
            return definition.now(config);
          },
        }
      : {}),
    // Not async: that would be one more promise for every step. What it throws its caller catches alike.
    run(config: Static<T>, run: NodeRun) {
      refuseFaulty(config);
      return "now" in definition ? definition.now(config) : definition.run(config, run);
    },
  } as unknown as NodeType;
}

type FlowDefinition<T extends TSchema> = Omit<Definition<T>, "run"> & { flow: Flow };

/** A node type without a `run` of its own; see `Flow`. */
export const defineFlow = <T extends TSchema>(definition: FlowDefinition<T>): NodeType =>
  defineNode({
    ...definition,
    run: async () => {
      throw new Error(`${definition.name} is carried out by the interpreter`);
    },
  });

/** Why a step failed, for people; `code` is stable. `retryable`: a later attempt could go better. */
export class NodeError extends Error {
  readonly retryable: boolean;

  constructor(
    readonly code: string,
    message: string,
    options: { retryable?: boolean } = {},
  ) {
    super(message);
    this.name = "NodeError";
    this.retryable = options.retryable ?? false;
  }
}

/** Which credentials are used is the author's to say, never the data's. */
function connectionFaults({ connection }: Record<string, unknown>): Fault[] {
  if (typeof connection !== "string" || !/\{\{|\{%/.test(connection)) return [];
  return [{ field: "connection", expected: "a connection's name or id", received: "a template" }];
}
