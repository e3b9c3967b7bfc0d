import { modelOf } from "../agents/agent-model.ts";
import type { Attachments } from "../agents/attachments.ts";
import { joined } from "../agents/history.ts";
import type { AgentSettings } from "../agents/schema.ts";
import type { Limits } from "../agents/sent-images.ts";
import type { Agents, AgentTarget } from "../agents/service.ts";
import type { StreamContext, Turns } from "../agents/turns.ts";
import { LivePartLog } from "../http/part-log.ts";
import type { Caller } from "../keys/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { invalidField } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import type { ContentPart, ModelMessage, Models } from "../models/model.ts";
import { type Asked, type Said, wordsIn } from "./asked.ts";
import type { createDirect, Running } from "./direct.ts";
import { byRule, housekeepingOf } from "./housekeeping.ts";

type Heeded = Pick<AgentSettings, "system_prompt" | "attachment_config">;

export type Door = ReturnType<typeof createDoor>;

const MOST_AGENTS = 1_000;

/** Chat programs make titles of their own, and wait for the last line. */
const AS_ASKED = { auto_generate_title: false, suggest_replies: false };
/** The agent's model without what makes it the agent. */
const BARE = {
  system_prompt: null,
  tools: [],
  sub_agents: [],
  datasets: [],
  mcp_servers: [],
  response_format: null,
};

/**
 * The door for clients of OpenAI's interface: each agent of the key's project is a model. What a client sends
 * is the context, and nothing is kept, unless it names a conversation: then that is gone on with, and what
 * is on record is the context.
 */
export function createDoor(deps: {
  agents: Pick<Agents, "inScope" | "list">;
  turns: Pick<Turns, "talk" | "halt">;
  attachments: Pick<Attachments, "show">;
  models: Pick<Models, "default_model">;
  direct: ReturnType<typeof createDirect>;
  clock: Clock;
}) {
  const { agents, turns, attachments, models, direct, clock } = deps;

  /** Roles alternate and system stands first, as many models' templates demand. */
  async function heard(
    { system_prompt: system, attachment_config }: Heeded,
    said: Said[],
  ): Promise<ModelMessage[]> {
    const messages: ModelMessage[] = [];
    for (const { role, content: parts, tool_calls, tool_call_id } of said) {
      const content = await shown(parts, attachment_config);
      const last = messages.at(-1);
      if (role === "user" && last?.role === "user") last.content = joined(last.content, content);
      else
        messages.push({
          role,
          content,
          ...(tool_calls ? { tool_calls } : {}),
          ...(tool_call_id ? { tool_call_id } : {}),
        });
    }
    return system ? [{ role: "system", content: system }, ...messages] : messages;
  }

  async function shown(parts: Said["content"], limits: Limits): Promise<ModelMessage["content"]> {
    if (parts.every((part) => part.type === "text")) return wordsIn({ content: parts });
    const images = parts.flatMap((part) => (part.type === "image" ? [part.image] : []));
    const pictures = await attachments.show(images, limits);
    return parts.map(
      (part): ContentPart =>
        part.type === "text" ? part : { type: "image", ...pictures[images.indexOf(part.image)]! },
    );
  }

  function answered(text: string): Running {
    const message_id = newId();
    const log = new LivePartLog(clock);
    const usage = { prompt_tokens: 0, completion_tokens: 0 };
    log.append(
      { type: "start_step", message_id },
      { type: "text", text },
      { type: "finish_step", reason: "stop", usage },
    );
    log.append({ type: "finish", reason: "stop", usage });
    log.close();
    return { message_id, created_at: clock.now(), log, leave: () => {} };
  }

  const settled = (
    agent: AgentTarget,
    asked: Asked,
    base: Partial<AgentSettings> = {},
  ): Partial<AgentSettings> => {
    const { system_prompt, model_config, response_format } = { ...agent.settings, ...base };
    return {
      ...AS_ASKED,
      ...base,
      system_prompt: [system_prompt, asked.instructions].filter(Boolean).join("\n\n") || null,
      model_config: { ...model_config, ...asked.model_config },
      response_format: asked.response_format ?? response_format,
    };
  };

  /** A conversation is a matter of words: who brings tools along goes on with them request by request. */
  async function inConversation(
    caller: Caller,
    agent: AgentTarget,
    { conversation, ...asked }: Asked & { conversation: { id: string; whole: boolean } },
    context: Omit<StreamContext, "settings" | "tellContext">,
  ): Promise<Running> {
    const last = asked.said.at(-1)!;
    if (last.role !== "user") throw invalidField("messages", "a message of the user at last", last.role);
    const users = asked.said.filter(({ role }) => role === "user").map(wordsIn);
    const request = {
      client_id: conversation.id,
      user_id: asked.user_id,
      text: wordsIn(last),
      images: last.content.flatMap((part) => (part.type === "image" ? [part.image] : [])),
      message_id: null,
      place: conversation.whole ? { type: "retold" as const, said: users } : { type: "next" as const },
      verdicts: [],
    };
    const settings = settled(agent, { conversation, ...asked });
    const turn = await turns.talk(caller, agent.id, request, { ...context, settings, tellContext: false });
    const { message_id, log, conversation_id, turn_id, replayed } = turn;
    // Whoever asked first may still read it.
    const leave = () => void (replayed || turns.halt(conversation_id, turn_id));
    return { message_id, created_at: clock.now(), log, conversation_id, replayed, leave };
  }

  return {
    /** Lets the answers end, at most `patienceMs`, then ends them; those of conversations are the turns'. */
    stop: (patienceMs = 0) => direct.stop(patienceMs),

    async models(caller: Caller) {
      const { workspace_id } = caller;
      const { items } = await agents.list(caller, { workspace_id, limit: MOST_AGENTS, offset: 0 });
      return {
        object: "list",
        data: items.map(({ created_at, ...agent }) => asModel(agent, Date.parse(created_at))),
      };
    },

    async model(caller: Caller, id: string) {
      const agent = await agents.inScope(caller, id);
      return asModel(agent, agent.created_at);
    },

    /** Begins an answer. Throws before anything is streamed. */
    async begin(
      caller: Caller,
      asked: Asked,
      context: Omit<StreamContext, "settings" | "tellContext">,
      ended?: Parameters<typeof direct.start>[0]["ended"],
    ): Promise<Running> {
      const agent = await agents.inScope(caller, asked.model);
      const chore = housekeepingOf(asked);
      if (chore) {
        if (modelOf(models, agent).startsWith("offline/")) return answered(byRule(chore));
        const bare = { ...agent, settings: { ...agent.settings, ...settled(agent, asked, BARE) } };
        return direct.start({
          agent: bare,
          hear: () => heard(bare.settings, asked.said),
          theirs: undefined,
          hop: context.hop,
        });
      }
      const { conversation, said, theirs } = asked;
      const isPlain = !theirs && said.every(({ role, tool_calls }) => role !== "tool" && !tool_calls);
      if (conversation && isPlain) return inConversation(caller, agent, { ...asked, conversation }, context);
      const settings = { ...agent.settings, ...settled(agent, asked) };
      // Before the answer begins, so that a picture that cannot be had is a refusal and not a broken stream.
      const messages = await heard(settings, said);
      return direct.start({
        agent: { ...agent, settings },
        hear: async () => messages,
        theirs,
        hop: context.hop,
        ended,
      });
    },
  };
}

const asModel = (
  { id, name, description }: { id: string; name: string; description: string },
  created_at: number,
) => ({
  id,
  object: "model",
  created: Math.floor(created_at / 1_000),
  owned_by: "errand",
  name,
  metadata: { name, description },
});
