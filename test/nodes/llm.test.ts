import { describe, expect, test } from "bun:test";
import { ModelError } from "../../src/models/model.ts";
import { llm } from "../../src/nodes/llm.ts";
import type { NodeResult } from "../../src/nodes/node.ts";
import { modelOf, runWith } from "./setup.ts";

const PERSON = { type: "object", required: ["name"], properties: { name: { type: "string" } } };

async function ask(config: object, ...answers: Parameters<typeof modelOf>) {
  const { models, asked } = modelOf(...answers);
  const run = runWith({ models });
  const ended = await Promise.resolve(llm.run({ prompt: "Hi", ...config } as never, run)).then(
    (result) => ({ result }),
    (error) => ({ error }),
  );
  run.close();
  return { asked, ...(ended as { result?: NodeResult; error?: unknown }) };
}

describe("llm", () => {
  test("asks the configured default model and counts what was used", async () => {
    const { asked, result } = await ask({}, { text: "Hello" });
    expect(asked[0]).toMatchObject({ model: "test/usual", messages: [{ role: "user", content: "Hi" }] });
    expect(result).toEqual({
      tokens: 7,
      external_calls: 1,
      output: { text: "Hello", model: "test/usual", usage: { prompt_tokens: 3, completion_tokens: 4 } },
    });
  });

  test("passes on the model, its settings and the system prompt", async () => {
    const { asked } = await ask(
      { model: "a/b", system_prompt: "Be short.", temperature: 0.5, max_tokens: 9 },
      {},
    );
    expect(asked[0]).toMatchObject({
      model: "a/b",
      temperature: 0.5,
      max_tokens: 9,
      messages: [
        { role: "system", content: "Be short." },
        { role: "user", content: "Hi" },
      ],
    });
  });

  test("gives on JSON of the wanted shape, out of a fence as well", async () => {
    const { asked, result } = await ask({ json_schema: PERSON }, { text: '```json\n{"name":"Ada"}\n```' });
    expect(asked[0]?.messages[0]?.content).toContain(JSON.stringify(PERSON));
    expect(result?.output).toMatchObject({ json: { name: "Ada" } });
  });

  test("fails on an answer of another shape, which another try may mend", async () => {
    expect((await ask({ json_schema: PERSON }, { text: "Ada" })).error).toMatchObject({
      code: "NOT_JSON",
      retryable: true,
    });
    expect((await ask({ json_schema: PERSON }, { text: '{"name":1}' })).error).toMatchObject({
      code: "JSON_MISFIT",
      message: "The model's answer does not fit json_schema: name: expected string, received number.",
      retryable: true,
    });
  });

  test("refuses a schema that cannot be used before it asks", async () => {
    const { asked, error } = await ask({ json_schema: { type: "thing" } }, {});
    expect(error).toMatchObject({ code: "INVALID_CONFIG", retryable: false });
    expect(asked).toEqual([]);
  });

  test("fails as the model failed", async () => {
    const cause = new ModelError("MODEL_RATE_LIMITED", "The model is busy.", true);
    expect((await ask({}, cause)).error).toMatchObject({ code: "MODEL_RATE_LIMITED", retryable: true });
  });
});
