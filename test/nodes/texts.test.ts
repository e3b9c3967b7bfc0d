import { describe, expect, test } from "bun:test";
import { extractContent } from "../../src/nodes/extract-content.ts";
import { parseData } from "../../src/nodes/parse-data.ts";
import { renderTemplate } from "../../src/nodes/render-template.ts";
import { stringToJson } from "../../src/nodes/string-to-json.ts";
import { run } from "./setup.ts";

describe("render_template", () => {
  test("gives on a text, also of a lone value that is none", async () => {
    expect((await run(renderTemplate, { template: "Hello Ada" })).output).toEqual({ text: "Hello Ada" });
    expect((await run(renderTemplate, { template: { a: [1] } })).output).toEqual({ text: '{"a":[1]}' });
    expect((await run(renderTemplate, { template: null })).output).toEqual({ text: "null" });
  });

  test("cuts what loops and conditions leave of empty lines", async () => {
    const { output } = await run(renderTemplate, { template: "\n a\n \n\n\n b\n\n c \n", trim: true });
    expect(output).toEqual({ text: "a\n\n b\n\n c" });
  });
});

describe("string_to_json", () => {
  const read = async (text: unknown, json_schema?: object) =>
    (await run(stringToJson, { text, ...(json_schema ? { json_schema } : {}) })).output;

  test.each([
    ['{"a":1}', { a: 1 }],
    [" 5 ", 5],
    ['Sure!\n```json\n{"a":"```"}\n```\nDone.', { a: "```" }],
    ["```\n[1]\n```", [1]],
    ['The answer [1] is {"a": {"b": "}"}} as asked.', [1]],
    ['Here: {"a": "\\"}"} ok', { a: '"}' }],
    ["{not this} but [true]", [true]],
    [{ a: 1 }, { a: 1 }],
  ])("finds the JSON in %j", async (text, json) => {
    expect(await read(text)).toEqual({ json } as never);
  });

  test.each(["", "none at all", "{", "[1, 2", "{".repeat(100_000), '["'.repeat(50_000)])(
    "fails where there is none",
    async (text) => {
      const started = performance.now();
      await expect(read(text)).rejects.toMatchObject({ code: "NOT_JSON", retryable: false });
      expect(performance.now() - started).toBeLessThan(1_000);
    },
  );

  test("holds the value against a schema", async () => {
    const schema = { type: "object", required: ["a"] };
    expect(await read('{"a":1}', schema)).toEqual({ json: { a: 1 } });
    await expect(read("[]", schema)).rejects.toMatchObject({ code: "JSON_MISFIT" });
    await expect(read("[]", { type: "thing" })).rejects.toMatchObject({ code: "INVALID_CONFIG" });
  });
});

describe("parse_data", () => {
  test("gives on rows and their count, and says what is wrong", async () => {
    expect((await run(parseData, { text: "a,b\n1,x", format: "csv", convert_values: true })).output).toEqual({
      data: [{ a: 1, b: "x" }],
      count: 1,
    });
    expect((await run(parseData, { text: '{"a":1}', format: "json" })).output).toEqual({
      data: { a: 1 },
      count: null,
    });
    await expect(run(parseData, { text: "{", format: "json" })).rejects.toMatchObject({
      code: "UNREADABLE",
      message: "The text is not JSON.",
    });
  });
});

describe("extract_content", () => {
  test("gives on a page's text, title and links", async () => {
    const html = "<title>T</title><nav>menu</nav><main><h1>Hi</h1><p>See <a href=/a>this</a></main>";
    const { output } = await run(extractContent, { html, base_url: "https://e.example/x", main_only: true });
    expect(output).toEqual({
      title: "T",
      description: null,
      content: "# Hi\n\nSee [this](https://e.example/a)",
      links: [{ text: "this", url: "https://e.example/a" }],
    });
  });
});
