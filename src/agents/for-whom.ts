import type { StreamProtocol } from "../http/message-stream.ts";
import type { StreamPart } from "../http/part-log.ts";
import type { AgentTarget } from "./service.ts";

const FAILED = { code: "AGENT_FAILED", message: "The agent could not answer. Try again later." };

/** A reader without a key; whether the agent's owner lets such hear what the model thinks. */
export type Stranger = { hearsReasoning: boolean };

export const strangerTo = ({ settings }: AgentTarget): Stranger => ({
  hearsReasoning: settings.public_reasoning === true,
});

/**
 * A stream for those without a key: what its agent is made of stays inside. Calls show that something is done
 * or waits for somebody, not what with; failures are one sentence, whatever a provider said; thoughts repeat
 * prompts and results.
 */
export const forStrangers = (protocol: StreamProtocol, { hearsReasoning }: Stranger): StreamProtocol =>
  through(protocol, (part) => (part.type === "reasoning" && !hearsReasoning ? undefined : shown(part)));

/** A stream for a client that adds it to a message it has: a call told twice would stand there twice. */
export const withoutRetold = (protocol: StreamProtocol): StreamProtocol =>
  through(protocol, (part) => ("retold" in part && part.retold ? undefined : part));

const through = (
  protocol: StreamProtocol,
  change: (part: StreamPart) => StreamPart | undefined,
): StreamProtocol => ({
  ...protocol,
  writer() {
    const writer = protocol.writer();
    return {
      part(part) {
        const changed = change(part);
        return changed ? writer.part(changed) : "";
      },
      end: () => writer.end(),
    };
  },
});

function shown(part: StreamPart): StreamPart {
  switch (part.type) {
    case "tool_call":
      return { ...part, name: "tool", args: {} };
    case "tool_result":
      return { ...part, result: part.is_error ? { error: FAILED } : null };
    case "approval_request":
      return { type: "data", data: [{ type: "waiting_for_approval" }] };
    case "error":
      return { ...part, message: FAILED.message };
    case "finish":
      return part.error ? { ...part, error: FAILED } : part;
    default:
      return part;
  }
}
