import type { StreamProtocol } from "../http/message-stream.ts";
import type { StreamPart } from "../http/part-log.ts";

const FAILED = { code: "AGENT_FAILED", message: "The agent could not answer. Try again later." };

/**
 * A stream for those without a key: what its agent is made of stays inside. Calls show that something is
 * done, not what with, unless the reader is asked to approve it; failures are one sentence, whatever a
 * provider said.
 */
export const forStrangers = (protocol: StreamProtocol): StreamProtocol => through(protocol, shown);

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
    case "error":
      return { ...part, message: FAILED.message };
    case "finish":
      return part.error ? { ...part, error: FAILED } : part;
    default:
      return part;
  }
}
