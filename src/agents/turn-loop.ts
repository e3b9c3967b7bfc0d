import type { StreamPart } from "../http/part-log.ts";
import { realTime } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import {
  ModelError,
  type ModelMessage,
  type ModelTool,
  type ToolChoice,
  type Usage,
} from "../models/model.ts";
import { addWords } from "../models/words.ts";
import { askModelOf, budgetOf, limitsOf, type ModelDeps, modelOf } from "./agent-model.ts";
import { callIdsOf, readable, textIn, UNREADABLE, usableId } from "./answer-parts.ts";
import type { AnswerPart } from "./conversation-store.ts";
import { answerMessages, trimmed } from "./history.ts";
import type { Journal } from "./journal.ts";
import { type AnswerFormat, answerFormatOf, correction, instructed } from "./response-format.ts";
import type { AgentTarget } from "./service.ts";
import type { ApprovalRow, Step } from "./step-store.ts";
import {
  capped,
  failure,
  failureOf,
  NO_OBJECT,
  type Outcome,
  type Place,
  type Result,
  type Tool,
  type ToolDeps,
  toolsOf,
} from "./tools.ts";

export type LoopDeps = ToolDeps & ModelDeps;

/** A call that somebody has to approve before it runs. */
export type Asked = Pick<ApprovalRow, "id" | "path" | "tool_call_id" | "tool_name" | "args">;

export type Loop = {
  agent: AgentTarget;
  /** What is said before the first step: what the agent is to be, and the conversation. */
  said: ModelMessage[];
  place: Place;
  journal: Journal;
  message_id: string;
  signal: AbortSignal;
  append(part: StreamPart): void;
  /** Filled as it goes, also where the loop throws: what was said and called, and what that took. */
  parts: AnswerPart[];
  usage: Usage;
  /** Calls that wait for approval, of sub-agents as well; without it nobody can be asked. */
  asked?: Asked[] | undefined;
  /** Tools that whoever reads the answer runs: a step that calls one ends it. */
  theirs?: TheirTools | undefined;
};

/** `choice`: what the reader wants called first. */
export type TheirTools = { tools: ModelTool[]; choice?: ToolChoice };

export type LoopEnd = { kind: "answered"; reason: string; text: string } | { kind: "waiting" };

const MOST_CALLS = 32;

/**
 * Lets the model answer, runs what it calls, tells it the results, until it calls nothing more:
 *
 *     ask ─> step ──┬─ no calls ──────────────────────────────> answered
 *                   └─ calls ─> saved ─> run, each saved ──┬──> ask
 *                                                          └──> waiting   (a call wants approval)
 *
 * A step that is on record is gone through again without the model, and of its calls only those without a
 * result are run. Throws ModelError, and whatever `signal` aborts with.
 */
export async function runLoop(deps: LoopDeps, loop: Loop): Promise<LoopEnd> {
  const { agent, journal, place, append, signal } = loop;
  const tools = await toolsOf(deps, agent, place, (target, message, call) =>
    askAgent(deps, loop, target, message, call),
  );
  const theirs = (loop.theirs?.tools ?? []).filter(({ name }) => tools.every((tool) => tool.name !== name));
  const steps = journal.stepsOf(place.path);
  const recorded = steps.length;
  const most = agent.settings.recursion_limit;
  const format = answerFormatOf(agent.settings);
  let corrected: ModelMessage[] = [];
  for (let seq = 0; seq < most; seq++) {
    signal.throwIfAborted();
    const isNew = seq >= recorded;
    if (isNew) {
      const choice = seq === 0 ? loop.theirs?.choice : undefined;
      await ask(deps, loop, { steps, tools, theirs, choice, format, corrected, isLast: seq === most - 1 });
    }
    const step = steps[seq]!;
    if (!isNew) {
      loop.parts.push(...step.parts);
      count(loop.usage, step.usage);
    }
    const calls = step.parts.filter((part) => part.type === "tool_call");
    if (calls.length === 0) {
      const fault = format && readAnswer(loop, step, format);
      if (fault !== undefined) {
        if (corrected.length > 0) throw misfit(fault);
        corrected = correction(textIn(step.parts), fault);
        append({ type: "finish_step", reason: step.reason, usage: step.usage });
        steps.pop();
        loop.parts.length -= step.parts.length;
        seq--;
        continue;
      }
      append({ type: "finish_step", reason: step.reason, usage: step.usage });
      return { kind: "answered", reason: step.reason, text: textIn(step.parts) };
    }
    if (calls.some(({ name }) => theirs.some((tool) => tool.name === name))) {
      // Own calls beside them are left: the model makes them again once it is told what the others gave.
      append({ type: "finish_step", reason: "tool-calls", usage: step.usage });
      return { kind: "answered", reason: "tool-calls", text: textIn(step.parts) };
    }
    const open = openCalls(step);
    if (isNew) await journal.save(place.path, step);
    else if (open.length > 0) {
      // Who reads only from here on has to know the calls whose results come.
      append({ type: "start_step", message_id: loop.message_id, retold: true });
      for (const { type, id, name, args } of open) append({ type, id, name, args, retold: true });
    }
    const isDone = await runCalls(deps, loop, step, tools);
    if (isNew || open.length > 0) append({ type: "finish_step", reason: "tool-calls", usage: step.usage });
    if (!isDone) return { kind: "waiting" };
  }
  throw new ModelError("MODEL_FAILED", `The agent came to no answer in ${most} steps.`, false);
}

type Asking = {
  steps: Step[];
  tools: Tool[];
  theirs: ModelTool[];
  choice: ToolChoice | undefined;
  format: AnswerFormat | undefined;
  /** What the model was told of an answer that missed the form. */
  corrected: ModelMessage[];
  isLast: boolean;
};

/** One answer of the model. Told part by part; `steps` has it once it is whole. */
async function ask(deps: LoopDeps, loop: Loop, asking: Asking): Promise<void> {
  const { agent, append, signal, message_id } = loop;
  const { steps, theirs, format, corrected, isLast } = asking;
  const { settings } = agent;
  const { temperature, max_tokens, reasoning_effort, fallback_models, time_limits } = settings.model_config;
  const model = modelOf(deps.models, agent);
  const own = asking.tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const tools = [...own, ...theirs];
  // An answer that missed its form is told again, and is no time for calls.
  const isToTell = isLast || corrected.length > 0;
  const tool_choice = isToTell ? ("none" as const) : asking.choice;
  const said = [...loop.said, ...steps.flatMap(({ parts }) => answerMessages(parts)), ...corrected];
  const messages = format ? instructed(said, format) : said;
  append({ type: "start_step", message_id });
  const stream = await askModelOf(deps, agent, {
    messages: trimmed(messages, budgetOf(model, settings.model_config, tools)),
    ...(tools.length > 0 ? { tools, ...(tool_choice ? { tool_choice } : {}) } : {}),
    temperature,
    max_tokens,
    reasoning_effort,
    fallback_models,
    // Some servers hold a model that is bound to a form from calling anything.
    response_format: tools.length > 0 && !isToTell ? undefined : format?.wire,
    limits: limitsOf(time_limits),
    signal,
  });
  const from = loop.parts.length;
  const taken = callIdsOf(messages);
  for await (const part of stream) {
    switch (part.type) {
      case "text":
      case "reasoning":
        addWords(loop.parts, part, { from });
        // What has to have a form is told when it has it.
        if (!format || part.type === "reasoning") append(part);
        break;
      case "tool_call": {
        const { name, provider_data } = part;
        const call = {
          type: "tool_call" as const,
          id: usableId(part.id, taken),
          name,
          args: readable(part.args),
        };
        if (format && !loop.parts.slice(from).some(({ type }) => type === "tool_call"))
          tellText(loop, loop.parts.slice(from));
        loop.parts.push(provider_data === undefined ? call : { ...call, provider_data });
        append(
          theirs.some(({ name }) => name === call.name) ? { ...call, is_readers: true, provider_data } : call,
        );
        break;
      }
      case "finish":
        count(loop.usage, part.usage);
        steps.push({ parts: loop.parts.slice(from), reason: part.reason, usage: part.usage });
        return;
    }
  }
  throw new ModelError("MODEL_INTERRUPTED", "The model's answer broke off.", true);
}

/** Runs the calls of a step that have no result yet, side by side. False: some wait for approval. */
async function runCalls(deps: LoopDeps, loop: Loop, step: Step, tools: Tool[]): Promise<boolean> {
  const open = openCalls(step);
  // Refused in one write: each writes all that the step has come to.
  await keep(
    loop,
    step,
    open.slice(MOST_CALLS).map((call) => resultOf(call, TOO_MANY)),
  );
  const outcomes = await Promise.allSettled(
    open.slice(0, MOST_CALLS).map(async (call) => {
      const outcome = await runCall(deps, loop, tools, call);
      if (outcome.kind === "waiting") return false;
      if (outcome.usage) {
        count(loop.usage, outcome.usage);
        count(step.usage, outcome.usage);
      }
      await keep(loop, step, [resultOf(call, outcome)]);
      return true;
    }),
  );
  let isDone = true;
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") throw outcome.reason;
    isDone &&= outcome.value;
  }
  return isDone;
}

type CallPart = Extract<AnswerPart, { type: "tool_call" }>;

type ResultPart = Extract<AnswerPart, { type: "tool_result" }>;

const resultOf = ({ id, name }: CallPart, outcome: Result): ResultPart => ({
  type: "tool_result",
  id,
  name,
  result: capped(outcome.result),
  ...(outcome.is_error ? { is_error: true } : {}),
});

/** Results are on record before anybody is told. */
async function keep(
  { journal, place, parts, append }: Loop,
  step: Step,
  results: ResultPart[],
): Promise<void> {
  if (results.length === 0) return;
  step.parts.push(...results);
  await journal.save(place.path, step);
  for (const result of results) {
    parts.push(result);
    append(result);
  }
}

/** The calls of a step that have no result yet. */
function openCalls({ parts }: Step): CallPart[] {
  const ended = new Set(parts.flatMap((part) => (part.type === "tool_result" ? [part.id] : [])));
  return parts.filter((part): part is CallPart => part.type === "tool_call" && !ended.has(part.id));
}

async function runCall(deps: LoopDeps, loop: Loop, tools: Tool[], call: CallPart): Promise<Outcome> {
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool) {
    const names = tools.map(({ name }) => name).join(", ") || "none";
    return failure("UNKNOWN_TOOL", `There is no tool of this name; there are: ${names}.`);
  }
  const faults = Object.hasOwn(Object(call.args), UNREADABLE) ? [NO_OBJECT] : tool.check(call.args);
  if (faults.length > 0) {
    const told = faults.map(({ field, expected, received }) => ({ field, expected, received }));
    return failure("INVALID_ARGUMENTS", "The arguments do not fit the tool's schema.", { faults: told });
  }
  if (tool.needsApproval) {
    const verdict = loop.journal.verdict(loop.place.path, call.id);
    if (!verdict || verdict.state === "pending") {
      if (!loop.asked) return NOBODY_TO_ASK;
      loop.asked.push({
        id: verdict?.id ?? newId(),
        path: loop.place.path,
        tool_call_id: call.id,
        tool_name: call.name,
        args: call.args,
      });
      return { kind: "waiting" };
    }
    if (verdict.state === "denied") {
      const why = verdict.reason ? ` Reason given: ${verdict.reason}` : "";
      return failure("DENIED", `The user did not approve this call.${why}`);
    }
  }
  return runInTime(deps, loop, tool, call);
}

async function runInTime({ clock }: LoopDeps, loop: Loop, tool: Tool, call: CallPart): Promise<Outcome> {
  const late = new AbortController();
  const { timeout_ms } = tool;
  const cancel = timeout_ms === undefined ? () => {} : realTime(clock).after(timeout_ms, () => late.abort());
  const signal = AbortSignal.any([loop.signal, late.signal]);
  try {
    return await tool.run(call.args as JsonObject, { id: call.id, signal });
  } catch (error) {
    loop.signal.throwIfAborted();
    if (late.signal.aborted) {
      return failure("TIMEOUT", `The tool had not ended after ${(timeout_ms ?? 0) / 1_000} seconds.`);
    }
    if (error instanceof ModelError) return failure(error.code, error.message);
    return failureOf(error);
  } finally {
    cancel();
  }
}

/** A sub-agent answers with its own words, tools and model; its steps are on record below the call. */
async function askAgent(
  deps: LoopDeps,
  { place, journal, message_id, asked }: Loop,
  agent: AgentTarget,
  message: string,
  call: { id: string; signal: AbortSignal },
): Promise<Outcome> {
  const { system_prompt } = agent.settings;
  const path = place.path ? `${place.path}/${call.id}` : call.id;
  const usage = { prompt_tokens: 0, completion_tokens: 0 };
  const end = await runLoop(deps, {
    agent,
    said: [
      ...(system_prompt ? [{ role: "system" as const, content: system_prompt }] : []),
      { role: "user", content: message },
    ],
    place: { turn: place.turn, path, ancestors: [...place.ancestors, agent.id] },
    journal,
    message_id,
    signal: call.signal,
    append: () => {},
    parts: [],
    usage,
    asked,
  });
  return end.kind === "waiting" ? end : { kind: "result", result: end.text, usage };
}

/** Tells an answer that has its form, the JSON alone; or in what it has not. */
function readAnswer(loop: Loop, step: Step, format: AnswerFormat): string | undefined {
  const read = format.read(textIn(step.parts));
  if ("fault" in read) return read.fault;
  const length = step.parts.length;
  step.parts = [...step.parts.filter(({ type }) => type !== "text"), { type: "text", text: read.value }];
  loop.parts.splice(-length, length, ...step.parts);
  tellText(loop, step.parts);
  return undefined;
}

function tellText({ append }: Loop, parts: AnswerPart[]): void {
  for (const part of parts) if (part.type === "text") append(part);
}

const misfit = (fault: string) =>
  new ModelError(
    "MODEL_MISFIT",
    `The model's answer does not fit the agent's response_format: ${fault}.`,
    true,
  );

const NOBODY_TO_ASK = failure(
  "NEEDS_APPROVAL",
  "This call needs a person's approval, and nobody can be asked in this conversation.",
);

const TOO_MANY = failure("TOO_MANY_CALLS", `At most ${MOST_CALLS} tools can be called at once.`);

function count(sum: Usage, { prompt_tokens, completion_tokens }: Usage): void {
  sum.prompt_tokens += prompt_tokens;
  sum.completion_tokens += completion_tokens;
}
