import type { LivePartLog } from "../http/part-log.ts";
import type { AnswerEnd } from "./answer.ts";

const NOTHING_USED = { prompt_tokens: 0, completion_tokens: 0 };

/** The last lines of a stream: what waits for approval, what went wrong, the end. Closes the log. */
export function tellEnd(
  log: LivePartLog,
  { reason, usage = NOTHING_USED, error, asked = [] }: Pick<AnswerEnd, "reason"> & Partial<AnswerEnd>,
): void {
  for (const { id, tool_call_id, tool_name, args } of asked) {
    log.append({ type: "approval_request", approval_id: id, tool_call_id, tool_name, args });
  }
  if (error) log.append({ type: "error", message: error.message });
  log.append({ type: "finish", reason, usage, error });
  log.close();
}
