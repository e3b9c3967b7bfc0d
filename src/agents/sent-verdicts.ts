import { isObject } from "../lib/json.ts";
import type { Verdict } from "./approvals.ts";

/**
 * The yeses and noes in a last message of the assistant: AI SDK 6 and later send its tool parts back with
 * `approval`, AI SDK 4 its tool invocations with a result, which is a yes if it says so. Else none.
 */
export function readVerdicts(message: unknown): Verdict[] {
  if (!isObject(message) || message["role"] !== "assistant") return [];
  const { parts, toolInvocations } = message;
  const found = [
    ...(Array.isArray(parts) ? parts : []).flatMap((part) => (isObject(part) ? verdictsOf(part) : [])),
    ...(Array.isArray(toolInvocations) ? toolInvocations : []).flatMap(verdictOfInvocation),
  ];
  // AI SDK 4 sends an invocation in both places.
  return [...new Map(found.map((verdict) => [verdict.approval_id, verdict])).values()];
}

function verdictsOf(part: Record<string, unknown>): Verdict[] {
  const { approval, state, toolInvocation } = part;
  if (toolInvocation !== undefined) return verdictOfInvocation(toolInvocation);
  if (state !== "approval-responded" || !isObject(approval) || !isName(approval["id"])) return [];
  const { reason } = approval;
  return [
    {
      approval_id: approval["id"],
      approved: approval["approved"] === true,
      ...(typeof reason === "string" && reason !== "" ? { reason: reason.slice(0, LONGEST_REASON) } : {}),
    },
  ];
}

const isName = (value: unknown): value is string => typeof value === "string" && value !== "";

const LONGEST_REASON = 1_000;
const YES = /^\s*(yes|y|ok|true|approved?|confirm(ed)?|allow(ed)?)\b/i;

function verdictOfInvocation(invocation: unknown): Verdict[] {
  if (!isObject(invocation) || invocation["state"] !== "result") return [];
  const { toolCallId, result } = invocation;
  if (!isName(toolCallId)) return [];
  const approved =
    result === true ||
    (typeof result === "string" && YES.test(result)) ||
    (isObject(result) && result["approved"] === true);
  return [{ approval_id: toolCallId, approved }];
}
