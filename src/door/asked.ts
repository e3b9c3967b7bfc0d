import type { AgentSettings } from "../agents/schema.ts";
import type { SentImage } from "../agents/sent-images.ts";
import type { TheirTools } from "../agents/turn-loop.ts";
import type { ToolCall } from "../models/model.ts";

/** A message as the client sent it; pictures are not yet fetched. */
export type Said = {
  role: "user" | "assistant" | "tool";
  content: ({ type: "text"; text: string } | { type: "image"; image: SentImage })[];
  tool_calls?: ToolCall[];
  tool_call_id?: string;
};

/** What a request through the door wants, whichever of its two forms it has. */
export type Asked = {
  /** The agent's id. */
  model: string;
  /** System and developer messages: they stand behind the agent's own prompt. */
  instructions: string;
  said: Said[];
  /** Tools that the client runs. */
  theirs: TheirTools | undefined;
  /** What the client wants otherwise than the agent is set to, for this answer. */
  model_config: AgentSettings["model_config"];
  response_format: AgentSettings["response_format"] | undefined;
  stream: boolean;
  /** Where the client names a conversation: it is kept. `whole`: its messages are all of it. */
  conversation: { id: string; whole: boolean } | undefined;
  user_id: string | null;
};

export const wordsIn = ({ content }: Pick<Said, "content">): string =>
  content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
