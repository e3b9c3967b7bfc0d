import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { answerMessages, messagesOf, tokensOf, trimmed } from "../../src/agents/history.ts";
import type { ModelMessage } from "../../src/models/model.ts";

const call = (id: string) => ({ type: "tool_call" as const, id, name: "t", args: {} });
const result = (id: string, result: string) => ({ type: "tool_result" as const, id, name: "t", result });
const text = (words: string) => ({ type: "text" as const, text: words });

describe("an answer of several steps", () => {
  test("is told step by step: words with calls, then results, then what followed", () => {
    const parts = [text("See"), call("a"), call("b"), result("b", "2"), result("a", "1"), text("Both")];
    const told = answerMessages(parts);
    expect(told.map(({ role, content }) => [role, content])).toEqual([
      ["assistant", "See"],
      ["tool", "1"],
      ["tool", "2"],
      ["assistant", "Both"],
    ]);
    expect(told[0]!.tool_calls?.map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test("has with each step what was thought in it", () => {
    const thought = (words: string) => ({ type: "reasoning" as const, text: words });
    const parts = [thought("Which"), thought("?"), call("a"), result("a", "1"), thought("Aha"), text("One")];
    const told = answerMessages([...parts, call("b"), result("b", "2"), text("Two")]);
    expect(told.map(({ reasoning }) => reasoning)).toEqual([
      "Which?",
      undefined,
      "Aha",
      undefined,
      undefined,
    ]);
  });

  test("says of a call without a result that it has not run", () => {
    expect(answerMessages([call("a")])[1]!.content).toContain("has not run");
  });
});

test("an answer that failed is left out, and the two messages around it are one", () => {
  const row = { conversation_id: "c", turn_id: "t", usage: null, created_at: 0 };
  const told = messagesOf("Be.", [
    { ...row, id: "1", role: "user", parts: [text("One")], state: "complete" },
    { ...row, id: "2", role: "assistant", parts: [text("Hm")], state: "failed" },
    { ...row, id: "3", role: "user", parts: [text("Two")], state: "complete" },
  ]);
  expect(told).toEqual([
    { role: "system", content: "Be." },
    { role: "user", content: "One\n\nTwo" },
  ]);
});

// A conversation as it may be: questions, answers with and without calls.
const turn = fc.record({
  asked: fc.nat(400),
  steps: fc.array(fc.nat(3), { maxLength: 4 }),
  said: fc.nat(400),
});
const conversation = fc.array(turn, { minLength: 1, maxLength: 12 }).map((turns) => {
  let id = 0;
  const messages: ModelMessage[] = [{ role: "system", content: "Be brief." }];
  for (const { asked, steps, said } of turns) {
    messages.push({ role: "user", content: "q".repeat(asked) });
    const parts = steps.flatMap((calls) => {
      const ids = Array.from({ length: calls }, () => String(++id));
      return [text("s"), ...ids.map(call), ...ids.map((one) => result(one, "r".repeat(said)))];
    });
    messages.push(...answerMessages([...parts, text("a".repeat(said))]));
  }
  return messages;
});

test("what is trimmed keeps the prompt and the last question, and no call without its results", () => {
  fc.assert(
    fc.property(conversation, fc.integer({ min: 1, max: 2_000 }), (messages, budget) => {
      const kept = trimmed(messages, budget);
      expect(kept[0]).toEqual(messages[0]!);
      expect(kept).toContain(messages.findLast(({ role }) => role === "user")!);
      expect(kept[1]!.role).toBe("user");
      const called = kept.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id));
      const answered = kept.flatMap(({ tool_call_id }) => (tool_call_id ? [tool_call_id] : []));
      expect(answered.toSorted()).toEqual(called.toSorted());
      const total = (list: ModelMessage[]) => list.reduce((sum, one) => sum + tokensOf(one), 0);
      if (total(messages) <= budget) expect(kept).toEqual(messages);
    }),
    { numRuns: 300 },
  );
});
