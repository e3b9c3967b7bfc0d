import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { choiceText, formOf, inputOf, type Property } from "../../src/hooks/form-input.ts";
import { schemaCheck } from "../../src/lib/draft-07.ts";
import { setVariables } from "../executions/setup.ts";
import { live } from "./live.ts";

const FORM = "application/x-www-form-urlencoded";
const properties: Record<string, Property> = {
  name: { title: "Name", type: "string" },
  age: { title: "Age", type: "integer" },
  ratio: { title: "Ratio", type: ["number", "null"] },
  agreed: { title: "Agreed", type: "boolean" },
  size: { title: "Size", enum: ["s", "l", 3, null] },
  tags: { title: "Tags", type: "array", items: { type: "integer" } },
  address: { title: "Address", type: "object" },
  free: { title: "Free" },
};
const input_schema = { title: "", description: "", required: ["name"], properties };
const ORDER = { input_schema, nodes: [setVariables("order", { all: "{{ name }}" })] };

describe("a form sent to a workflow", () => {
  test("is its inputs by name, each of the type its schema gives it", async () => {
    const { aWorkflow, send, executions } = live();
    const { url } = await aWorkflow(ORDER);
    const body = new URLSearchParams([
      ["name", "Ada Lovelace"],
      ["age", "36"],
      ["ratio", "-1.5e3"],
      ["agreed", "on"],
      ["size", "3"],
      ["tags", "[1, 2]"],
      ["address", '{"city":"London"}'],
      ["free", ""],
      ["other", "x"],
    ]).toString();
    const answer = await send("POST", url, { body, type: FORM });
    expect(answer.status).toBe(202);
    const run = await executions.until(answer.body.execution_id, "success");
    expect(run).toMatchObject({ trigger_source: "form" });
    expect(run.input_data).toEqual({
      name: "Ada Lovelace",
      age: 36,
      ratio: -1500,
      agreed: true,
      size: 3,
      tags: [1, 2],
      address: { city: "London" },
      other: "x",
    });
  });

  test("may give a list as one name several times", () => {
    const { input } = inputOf(input_schema, { tags: ["1", "2", "x"], unknown: ["a", "b"] });
    expect(input).toEqual({ tags: [1, 2, "x"], unknown: ["a", "b"] });
  });

  test("is refused with the field and nothing stored where a text does not fit", async () => {
    const { aWorkflow, send, executions } = live();
    const { url } = await aWorkflow(ORDER);
    for (const [body, field, expected, received] of [
      ["age=1", "input_data.name", "a value", "nothing"],
      ["name=", "input_data.name", "a value", "nothing"],
      ["name=a&age=old", "input_data.age", "integer", "string"],
      ["name=a&age=0x10", "input_data.age", "integer", "string"],
      ["name=a&age=1.5", "input_data.age", "integer", "number"],
      ["name=a&agreed=maybe", "input_data.agreed", "boolean", "string"],
      ["name=a&tags=1,2", "input_data.tags", "JSON", "text that is not JSON"],
      ["name=a&tags=[%22x%22]", "input_data.tags.0", "integer", "string"],
      ["name=a&address=[]", "input_data.address", "object", "array of 0"],
      ["name=a&size=m", "input_data.size", expect.stringContaining("one of"), "string"],
    ] as const) {
      const answer = await send("POST", url, { body, type: FORM });
      expect([body, answer.status, answer.body.success]).toEqual([body, 400, false]);
      expect(answer.body.error.details).toEqual({ field, expected, received });
    }
    expect(executions.storage.reader.all("SELECT * FROM executions")).toHaveLength(0);
  });

  test("arrives the same as multipart", async () => {
    const { aWorkflow, send, executions } = live();
    const { url } = await aWorkflow(ORDER);
    const part = (name: string, value: string) =>
      `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
    const body = `${part("name", "é")}${part("age", "7")}--b--\r\n`;
    const { body: accepted } = await send("POST", url, { body, type: "multipart/form-data; boundary=b" });
    expect((await executions.until(accepted.execution_id, "success")).input_data).toEqual({
      name: "é",
      age: 7,
    });
    const file = `--b\r\ncontent-disposition: form-data; name="name"; filename="a.txt"\r\n\r\nx\r\n--b--\r\n`;
    const refused = await send("POST", url, { body: file, type: "multipart/form-data; boundary=b" });
    expect(refused.body.error.details).toEqual({
      field: "name",
      expected: "a text field",
      received: "a file",
    });
  });

  test("whatever it says, what comes of a text fits its type or stays that text", () => {
    const text = fc.oneof(
      fc.string(),
      fc.double().map(String),
      fc.json(),
      fc.constantFrom("true", "s", "null"),
    );
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(properties)), text, (name, given) => {
        const { input, faults } = inputOf(input_schema, { [name]: given });
        if (given === "" || faults.length > 0) return expect(input).toEqual({});
        const value = input[name]!;
        const form = formOf(properties[name]!);
        if (form === "json") expect(value).toEqual(JSON.parse(given));
        else if (form === "number" && value !== given) expect(value).toBeNumber();
        else if (value !== given) expect(schemaCheck(properties[name])(value)).toEqual([]);
        if (form === "choice" && value !== given) expect(choiceText(value)).toBe(given);
      }),
    );
  });
});

describe("what is said to an agent", () => {
  const told = async (body: string, type: string) => {
    const { anAgent, send, agents } = live();
    const { url } = await anAgent();
    const { status, body: answer } = await send("POST", url, { body, type });
    return {
      status,
      error: answer.error?.details,
      conversations: agents.rows("conversations") as {
        user_id: string;
        client_id: string;
        metadata: string;
      }[],
      messages: agents.rows("messages").map(({ parts }) => JSON.parse(parts as string)),
    };
  };

  test("may be plain text: the message itself", async () => {
    const { messages } = await told("Hello\nthere é", "text/plain; charset=utf-8");
    expect(messages).toEqual([[{ type: "text", text: "Hello\nthere é" }]]);
    expect((await told("x", "text/html")).status).toBe(415);
    expect((await told("x", "application/xml")).status).toBe(415);
  });

  test("may be a form, its objects as JSON or value by value", async () => {
    const body = new URLSearchParams([
      ["message", "Hi"],
      ["user_id", "u1"],
      ["metadata", '{"plan":"pro"}'],
      ["context.conversation_id", "thread-1"],
      ["context.page", "/cart"],
      ["else", "ignored"],
    ]).toString();
    const { status, conversations, messages } = await told(body, FORM);
    expect(status).toBe(202);
    expect(conversations).toMatchObject([
      { user_id: "u1", client_id: "thread-1", metadata: '{"plan":"pro"}' },
    ]);
    expect(messages[0]).toEqual([
      { type: "text", text: "Hi" },
      { type: "context", facts: { page: "/cart" } },
    ]);
  });

  test("is refused where the form does not say it", async () => {
    expect((await told("user_id=u", FORM)).error).toMatchObject({ field: "message", received: "nothing" });
    expect((await told("message=", FORM)).error).toMatchObject({ field: "message" });
    expect((await told("message=a&context=x", FORM)).error).toMatchObject({
      field: "context",
      expected: "JSON",
    });
    expect((await told("message=a&context=[]", FORM)).error).toMatchObject({ field: "context" });
    expect((await told("message=a&context.__proto__=x", FORM)).status).toBe(400);
  });
});

describe("a body that is not what its type says", () => {
  test("is refused, and nothing is stored", async () => {
    const { aWorkflow, anAgent, send, executions, agents } = live();
    const urls = [(await aWorkflow(ORDER)).url, (await anAgent()).url];
    const bodies: [string, string, number][] = [
      ["name=a", "application/json", 400],
      ["<x/>", "application/json", 400],
      ['{"message":"a"', "application/json", 400],
      ["--x", "multipart/form-data; boundary=b", 400],
      ['{"message":"a"}', "multipart/form-data", 400],
      ['{"message":"a"}', FORM, 400],
      ["x", "application/octet-stream", 415],
      ["x", "application/jsonx", 415],
      ["x", "image/png", 415],
    ];
    for (const url of urls)
      for (const [body, type, status] of bodies) {
        expect([body, type, (await send("POST", url, { body, type })).status]).toEqual([body, type, status]);
        // Without its token the caller is told nothing of that, by the form page's address neither.
        for (const at of [
          url.slice(0, -1),
          url.split("?")[0]!,
          url.replace(/[0-9a-f-]{36}/, crypto.randomUUID()),
        ])
          for (const address of at.includes("workflows") ? [at, at.replace(/(\?|$)/, "/form$1")] : [at])
            expect([address, (await send("POST", address, { body, type })).status]).toEqual([address, 401]);
      }
    expect(executions.storage.reader.all("SELECT * FROM executions")).toHaveLength(0);
    expect(agents.rows("turns")).toHaveLength(0);
  });

  test("far past the limit ends the connection, whoever sends it", async () => {
    const { aWorkflow, send } = live();
    const { url, path } = await aWorkflow(ORDER);
    const headers = { "content-length": String(64 * 1024 * 17) };
    for (const [at, status] of [
      [url, 413],
      [path, 401],
    ] as const) {
      const answer = await send("POST", at, { body: "{}", headers });
      expect([at, answer.status, answer.headers.get("connection")]).toEqual([at, status, "close"]);
    }
  });
});

describe("a limit of starts a minute", () => {
  test("counts each target by itself, tells when to come again, and only those with a token use it up", async () => {
    const { aWorkflow, anAgent, send, clock } = live({ quota: 2 });
    const [workflow, other, agent] = [await aWorkflow(ORDER), await aWorkflow(ORDER), await anAgent()];
    const start = (url: string) => send("POST", url, { body: { input_data: { name: "a" }, message: "a" } });
    for (let n = 0; n < 5; n++) expect((await start(`${workflow.path}?token=wrong`)).status).toBe(401);
    const statuses = [];
    for (let n = 0; n < 3; n++) statuses.push((await start(workflow.url)).status);
    expect(statuses).toEqual([202, 202, 429]);
    const refused = await start(workflow.url);
    expect([refused.headers.get("retry-after"), refused.body.success, refused.body.error.code]).toEqual([
      "60",
      false,
      "RATE_LIMITED",
    ]);
    expect([(await start(other.url)).status, (await start(agent.url)).status]).toEqual([202, 202]);
    await clock.advance(60_000);
    expect((await start(workflow.url)).status).toBe(202);
  });

  test("counts what is refused for its body too", async () => {
    const { aWorkflow, anAgent, send } = live({ quota: 2 });
    for (const { url } of [await aWorkflow(ORDER), await anAgent()]) {
      const statuses = [];
      for (const body of ["{", "{}", "{"]) statuses.push((await send("POST", url, { body })).status);
      expect(statuses).toEqual([400, 400, 429]);
    }
  });
});
