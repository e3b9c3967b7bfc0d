import { describe, expect, test } from "bun:test";
import { completeProgram } from "../../src/workflows/defaults.ts";
import type { CreateWorkflow } from "../../src/workflows/schema.ts";
import { programFaults } from "../../src/workflows/validate.ts";

type Given = { node_type_name?: string; name?: string; input_config?: object; output_mapping?: object };

const node = (given: Given) => ({
  node_type_name: "set_variables",
  name: "one",
  input_config: { variables: {} },
  ...given,
});
const set = (name: string, variables: object, more: object = {}) =>
  node({ name, input_config: { variables, ...more } });
const call = (input_config: object) => node({ node_type_name: "api_call", name: "call", input_config });

function faultsOf(nodes: Given[], inputs: string[] = ["name"], more: object = {}) {
  const properties = Object.fromEntries(inputs.map((input) => [input, { type: "string" }]));
  return programFaults(completeProgram({ input_schema: { properties }, nodes, ...more } as CreateWorkflow));
}
const fields = (...given: Parameters<typeof faultsOf>) => faultsOf(...given).map(({ field }) => field);

describe("a sound workflow has no faults", () => {
  test("whatever of it is still to be rendered", () => {
    const nodes = [
      set("first", { hello: "Hi {{ name }} {{ inputs.other }} {{ run.id }} {{ event.source }}", n: 3 }),
      call({
        url: "{{ first.hello }}",
        method: "{{ vars.method }}",
        headers: "{{ first.n }}",
        timeout_seconds: "{{ first.n }}",
      }),
      node({ name: "last", output_mapping: { got: "{{ output.x }}", sent: "{{ call.status }}" } }),
    ];
    expect(faultsOf(nodes, ["name"], { output_mapping: { all: "{{ last.got }}" } })).toEqual([]);
  });

  test("with names that a template makes itself", () => {
    expect(
      faultsOf([set("one", { a: "{% for i in inputs.list %}{{ i }}{{ forloop.index }}{% endfor %}" })]),
    ).toEqual([]);
  });

  test("with any input where none is declared", () => {
    expect(faultsOf([set("one", { a: "{{ whatever }}" })], [])).toEqual([]);
  });

  test("with every option", () => {
    const _options = {
      run_if: "{{ name }}",
      retry: { max_attempts: 3, delay_seconds: 0.5, backoff_multiplier: 2 },
      timeout_seconds: 5,
      on_error: "default",
      default_output: "{{ taken as it is }}",
      pinned_output: { a: "{% this %} too" },
      on_unknown: "fail",
    };
    expect(faultsOf([set("one", {}, { _options })])).toEqual([]);
  });
});

describe("a fault is told with its path", () => {
  test("an unknown node type, with the one that was meant", () => {
    expect(faultsOf([node({ node_type_name: "api_cal" })])).toEqual([
      { field: "nodes.0.node_type_name", expected: "a node type, such as api_call", received: "api_cal" },
    ]);
  });

  test.each(["inputs", "run", "vars", "event", "loop", "item", "output", "true", "name", "1a", "a.b", "a b"])(
    "the name %s",
    (name) => expect(fields([set(name, {})])).toEqual(["nodes.0.name"]),
  );

  test("a name that is taken", () => {
    expect(fields([set("a", {}), set("a", {})])).toEqual(["nodes.1.name"]);
  });

  test("a configuration that does not fit the node type", () => {
    expect(fields([call({ method: "FETCH", timeout_seconds: 0, headers: { a: [] }, mode: 1 })])).toEqual(
      expect.arrayContaining([
        "nodes.0.input_config.url",
        "nodes.0.input_config.method",
        "nodes.0.input_config.timeout_seconds",
        "nodes.0.input_config.headers.a",
        "nodes.0.input_config.mode",
      ]),
    );
  });

  test("a json_schema that no answer can be checked by", () => {
    const config = { prompt: "x", json_schema: { type: "object", properties: { a: { type: "text" } } } };
    expect(fields([node({ node_type_name: "llm", name: "ask", input_config: config })])).toEqual([
      "nodes.0.input_config.json_schema.properties.a.type",
    ]);
  });

  test("an option that is none", () => {
    expect(
      fields([set("a", {}, { _options: { retry: { max_attempts: 0 }, on_error: "ignore", cache: 1 } })]),
    ).toEqual(
      expect.arrayContaining([
        "nodes.0.input_config._options.retry.max_attempts",
        "nodes.0.input_config._options.on_error",
        "nodes.0.input_config._options.cache",
      ]),
    );
    expect(fields([set("a", {}, { _options: "none" })])).toEqual(["nodes.0.input_config._options"]);
  });

  test("a template that cannot be read", () => {
    expect(faultsOf([set("a", { deep: [{ text: "{% if %}" }] })])[0]).toMatchObject({
      field: "nodes.0.input_config.variables.deep.0.text",
      expected: "a template that can be read",
    });
  });

  test("a reference to nothing, to itself, to a later node and to another's output", () => {
    const nodes = [
      set(
        "a",
        { x: "{{ nme }}", y: "{{ a.x }}", z: "{{ b.x }}", o: "{{ output }}", l: "{{ loop.index }}" },
        { _options: { run_if: "{{ gone }}" } },
      ),
      set("b", {}),
    ];
    expect(
      faultsOf(nodes, ["name"], { output_mapping: { r: "{{ missing.x }}" } }).map(
        ({ field, expected }) => `${field}: ${expected}`,
      ),
    ).toEqual([
      "nodes.0.input_config.variables.x: an input or an earlier node, such as name",
      "nodes.0.input_config.variables.y: a reference to an earlier node",
      "nodes.0.input_config.variables.z: a reference to an earlier node",
      "nodes.0.input_config.variables.o: an input or an earlier node",
      "nodes.0.input_config.variables.l: an input or an earlier node",
      "nodes.0.input_config._options.run_if: an input or an earlier node",
      "output_mapping.r: an input or an earlier node",
    ]);
  });

  test("at most a hundred times", () => {
    expect(faultsOf([set("a", { x: Array(500).fill("{{ nothing }}") })])).toHaveLength(100);
  });
});

describe("lists of nodes inside of nodes", () => {
  const each = (name: string, nodes: unknown, more: object = {}) =>
    node({ node_type_name: "for_each", name, input_config: { items: "{{ name }}", nodes, ...more } });
  const when = (condition: unknown, more: object = {}) =>
    // biome-ignore lint/suspicious/noThenProperty: a list, which nothing takes for a promise
    node({ node_type_name: "condition", name: "c", input_config: { if: condition, then: [], ...more } });

  test("see what stands before and around them, and the loop they are in", () => {
    const inner = set("inner", { a: "{{ first.x }} {{ loop.item }} {{ name }}", b: "{{ run.id }}" });
    const after = set("after", { n: "{{ each.count }}" });
    expect(
      faultsOf([set("first", { x: 1 }), each("each", [inner, set("next", { c: "{{ inner.a }}" })]), after]),
    ).toEqual([]);
  });

  test("are not seen from outside, nor from beside", () => {
    const list = [
      each("each", [set("inner", {})]),
      set("after", { n: "{{ inner.x }}", l: "{{ loop.index }}" }),
    ];
    expect(fields(list)).toEqual(["nodes.1.input_config.variables.n", "nodes.1.input_config.variables.l"]);
    const both = node({
      node_type_name: "parallel",
      name: "both",
      input_config: { branches: { a: [set("one_a", {})], b: [set("one_b", { x: "{{ one_a.x }}" })] } },
    });
    expect(fields([both])).toEqual(["nodes.0.input_config.branches.b.0.input_config.variables.x"]);
  });

  test("have names of their own, known types and sound configurations, told with their path", () => {
    const list = [
      set("one", {}),
      each("each", [
        set("one", {}),
        { node_type_name: "nothing", name: "two", input_config: {} },
        { name: 3 },
      ]),
    ];
    expect(fields(list)).toEqual([
      "nodes.1.input_config.nodes.2.node_type_name",
      "nodes.1.input_config.nodes.2.input_config",
      "nodes.1.input_config.nodes.2.name",
      "nodes.1.input_config.nodes.0.name",
      "nodes.1.input_config.nodes.1.node_type_name",
    ]);
  });

  test("are lists and no templates", () => {
    expect(fields([each("each", "{{ name }}")])).toEqual(["nodes.0.input_config.nodes"]);
    expect(fields([when(true, { else: "{{ name }}" })])).toEqual(["nodes.0.input_config.else"]);
    const both = node({ node_type_name: "parallel", name: "p", input_config: { branches: "{{ name }}" } });
    expect(fields([both])).toContain("nodes.0.input_config.branches");
  });

  test("go eight levels deep, and no deeper", () => {
    const deep = (levels: number): Given =>
      levels === 1 ? set("n1", {}) : each(`n${levels}`, [deep(levels - 1)]);
    expect(faultsOf([deep(8)])).toEqual([]);
    expect(fields([deep(9)])).toEqual(["nodes"]);
  });

  test("conditions look at what there is, by operators there are", () => {
    expect(faultsOf([set("one", {}), when({ "one.x": { gt: "{{ name }}" } })])).toEqual([]);
    expect(fields([when({ "onne.x": { gt: 1 } })])).toEqual(["nodes.0.input_config.if"]);
    expect(fields([when({ name: { over: 1 } })])).toEqual(["nodes.0.input_config.if.name.over"]);
  });

  test("a wait waits in one way; a route has nodes; a loop is not retried whole", () => {
    const wait = (input_config: object) => node({ node_type_name: "wait", name: "w", input_config });
    expect(fields([wait({})])).toEqual(["nodes.0.input_config"]);
    expect(fields([wait({ seconds: 1, until: "2026-01-01T00:00:00Z" })])).toEqual(["nodes.0.input_config"]);
    expect(faultsOf([wait({ callback: { nodes: [set("s", { u: "{{ callback.url }}" })] } })])).toEqual([]);
    expect(fields([set("one", {}, { _options: { on_error: "route" } })])).toEqual([
      "nodes.0.input_config._options.error_nodes",
    ]);
    const error_nodes = [set("two", { why: "{{ error.message }}" })];
    expect(faultsOf([set("one", {}, { _options: { on_error: "route", error_nodes } })])).toEqual([]);
    expect(fields([each("e", [], { _options: { retry: { max_attempts: 2 } } })])).toEqual([
      "nodes.0.input_config._options.retry",
    ]);
  });
});
