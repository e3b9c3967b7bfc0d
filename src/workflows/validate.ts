import Type from "typebox";
import type { Fault } from "../lib/errors.ts";
import { isObject, readPath } from "../lib/json.ts";
import { nearest } from "../lib/nearest.ts";
import { json } from "../lib/schema.ts";
import { isTemplate, references, TemplateError } from "../lib/template.ts";
import { nodeType, nodeTypes } from "../nodes/index.ts";
import type { NestedList, NodeType } from "../nodes/node.ts";
import { whenFaults, whenPaths } from "../nodes/when.ts";
import { inputSchemaFaults } from "./input-schema.ts";
import { Node, type Program } from "./schema.ts";

/** What every template can name, */
const ALWAYS = ["inputs", "vars", "run", "event"];
/** what only some can, inside of loops and output mappings, */
const NOT_HERE = new Set(["loop", "item", "index", "output", "error", "callback"]);
/** and what no node may be called for their sake and the template language's. */
const RESERVED = new Set([
  ...ALWAYS,
  ...NOT_HERE,
  "true",
  "false",
  "nil",
  "null",
  "empty",
  "blank",
  "forloop",
]);
const NAME = /^[A-Za-z_][\w-]*$/;

/** `input_config._options`, on every node (design 6). */
const Options = json(
  Type.Object(
    {
      run_if: Type.Optional(Type.Unknown()),
      retry: Type.Optional(
        Type.Object(
          {
            max_attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 20 })),
            delay_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 })),
            backoff_multiplier: Type.Optional(Type.Number({ minimum: 1, maximum: 10 })),
          },
          { additionalProperties: false },
        ),
      ),
      timeout_seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
      on_error: Type.Optional(Type.Enum(["stop", "continue", "default", "route"])),
      error_nodes: Type.Optional(Type.Array(Node, { maxItems: 200 })),
      default_output: Type.Optional(Type.Unknown()),
      pinned_output: Type.Optional(Type.Unknown()),
      on_unknown: Type.Optional(Type.Enum(["retry", "fail"])),
    },
    { additionalProperties: false },
  ),
);

const MOST_FAULTS = 100;

/** All levels together, and how many levels there are. */
const MOST_NODES = 1_000;
const MOST_LEVELS = 8;

/** Everything that would keep a workflow from running, with paths, at most 100; nothing when it is sound. */
export function programFaults(program: Program): Fault[] {
  const faults = inputSchemaFaults(program.input_schema);
  const inputs = Object.keys(program.input_schema.properties);
  const all = new Set<string>();
  const count = collectNames(program.nodes, all, 1);
  if (count > MOST_NODES) {
    return [
      {
        field: "nodes",
        expected: `at most ${MOST_NODES} nodes, ${MOST_LEVELS} levels deep`,
        received: "more",
      },
    ];
  }
  const names: Names = {
    // Without a declared input any name may be one.
    known: inputs.length > 0 ? new Set([...inputs, ...ALWAYS]) : undefined,
    unseen: new Set(all),
  };
  faults.push(
    ...listFaults(program.nodes, "nodes", names, { inputs, taken: new Set() }),
    ...referenceFaults(program.output_mapping, "output_mapping", names),
  );
  return faults.slice(0, MOST_FAULTS);
}

/** Fills `names` and counts the nodes of all levels; more than any number where there are too many levels. */
function collectNames(nodes: Node[], names: Set<string>, level: number): number {
  if (level > MOST_LEVELS) return Number.POSITIVE_INFINITY;
  let count = nodes.length;
  for (const node of nodes) {
    names.add(node.name);
    for (const { nodes: inner } of listsOf(node)) {
      if (inner.length > 0) count += collectNames(inner, names, level + 1);
    }
  }
  return count;
}

type Told = { inputs: string[]; taken: Set<string> };

/** The faults of a list of nodes; what comes after the list in `names` sees none of its nodes but its own. */
function listFaults(nodes: Node[], at: string, names: Names, told: Told): Fault[] {
  const faults: Fault[] = [];
  for (const [index, node] of nodes.entries()) {
    const here = `${at}.${index}`;
    const config = `${here}.input_config`;
    const seen = { ...names, node: node.name };
    faults.push(
      ...nameFaults(node.name, `${here}.name`, told.taken, told.inputs),
      ...configFaults(node, config),
      ...connectionFaults(node, `${here}.connection`),
      ...referenceFaults(renderedPart(node), config, seen),
      ...pathFaults(node, config, seen),
      ...referenceFaults(node.output_mapping, `${here}.output_mapping`, { ...seen, own: ["output"] }),
    );
    told.taken.add(node.name);
    for (const { path, nodes: inner, names: more } of listsOf(node)) {
      const inside: Names = {
        known: names.known && new Set([...names.known, ...more]),
        unseen: new Set(names.unseen),
        own: [...(names.own ?? []), ...more],
      };
      faults.push(...listFaults(inner, `${config}.${path}`, inside, told));
    }
    names.unseen.delete(node.name);
    names.known?.add(node.name);
  }
  return faults;
}

/** The lists inside of a node; what has not the form of a node is told where the form is checked. */
export function listsOf({ node_type_name, input_config }: Node): (NestedList & { nodes: Node[] })[] {
  const { _options, ...config } = input_config;
  const own = nodeType(node_type_name)?.flow?.lists(config) ?? [];
  const ofErrors = isObject(_options) ? _options["error_nodes"] : undefined;
  return [...own, { path: "_options.error_nodes", nodes: ofErrors, names: ["error"] }].map((list) => ({
    ...list,
    nodes: Array.isArray(list.nodes) ? list.nodes.filter(isNode) : [],
  }));
}

const isNode = (value: unknown): value is Node =>
  isObject(value) &&
  typeof value["name"] === "string" &&
  typeof value["node_type_name"] === "string" &&
  isObject(value["input_config"]);

/** What a step renders: lists inside of it are rendered by their own steps, two options are taken as they are. */
function renderedPart({ node_type_name, input_config }: Node): unknown {
  const { _options, ...config } = input_config;
  const lists = nodeType(node_type_name)?.flow?.lists(config) ?? [];
  const own = lists.reduce((rest: unknown, { path }) => without(rest, path.split(".")), config) as object;
  if (!isObject(_options)) return own;
  const { default_output, pinned_output, error_nodes, ...options } = _options;
  return { ...own, _options: options };
}

/** A copy that has nothing at `path`; positions in lists stay as they are. */
function without(value: unknown, [key, ...path]: string[]): unknown {
  if (typeof value !== "object" || value === null || key === undefined) return undefined;
  const inner = without((value as Record<string, unknown>)[key], path);
  if (Array.isArray(value)) return value.map((each, index) => (String(index) === key ? inner : each));
  return { ...value, [key]: inner };
}

/** What conditions of operators look at is named by their fields. */
function pathFaults({ node_type_name, input_config }: Node, at: string, names: Names): Fault[] {
  const { _options, ...config } = input_config;
  const conditions = nodeType(node_type_name)?.flow?.conditions?.(config) ?? [];
  const runIf = isObject(_options) ? [{ path: "_options.run_if", when: _options["run_if"] }] : [];
  return [...conditions, ...runIf].flatMap(({ path, when }) =>
    whenPaths(when).flatMap((dotted) =>
      rootFaults(dotted.split(".")[0] ?? "", `${at}.${path}`, names, dotted.slice(0, 100)),
    ),
  );
}

function nameFaults(name: string, field: string, taken: Set<string>, inputs: string[]): Fault[] {
  if (!NAME.test(name))
    return [{ field, expected: "letters, digits, _ and -, not beginning with a digit", received: name }];
  if (RESERVED.has(name)) return [{ field, expected: "a name that is not reserved", received: name }];
  if (taken.has(name)) return [{ field, expected: "a name that no earlier node has", received: name }];
  if (inputs.includes(name)) return [{ field, expected: "a name that no input has", received: name }];
  return [];
}

function configFaults(node: Node, at: string): Fault[] {
  const type = nodeType(node.node_type_name);
  if (!type) {
    const close = nearest(node.node_type_name, [...nodeTypes.keys()]);
    const expected = close ? `a node type, such as ${close}` : `one of ${[...nodeTypes.keys()].join(", ")}`;
    return [
      { field: at.replace(/input_config$/, "node_type_name"), expected, received: node.node_type_name },
    ];
  }
  const { _options, ...config } = node.input_config;
  const fixed = type.flow?.fixed ?? [];
  const isFixed = (field: string) =>
    fixed.includes(field) || (fixed.includes(field.split(".")[0]!) && !field.startsWith("callback."));
  const inConfig = type.input
    .faults(config)
    .filter((fault) => isFixed(fault.field) || !isLate(config, fault.field))
    .map((fault) => ({ ...fault, field: below(at, fault.field) }));
  const inOptions = _options === undefined ? [] : Options.faults(_options);
  return [
    ...inConfig,
    ...(type.check?.(config) ?? []).map((fault) => ({ ...fault, field: below(at, fault.field) })),
    ...inOptions.map((fault) => ({ ...fault, field: below(`${at}._options`, fault.field) })),
    ...(inOptions.length === 0 && isObject(_options) ? optionFaults(_options, type, `${at}._options`) : []),
  ];
}

/** `connection` may stand beside `input_config` (interface 2.1.2) or in it, with nodes that use one. */
function connectionFaults({ connection, node_type_name, input_config }: Node, field: string): Fault[] {
  const type = nodeType(node_type_name);
  if (!type || typeof connection !== "string") return [];
  if (!type.connections) {
    return [{ field, expected: `nothing: ${node_type_name} uses no connection`, received: connection }];
  }
  if (input_config["connection"] !== undefined) {
    return [{ field, expected: "nothing: input_config names one", received: connection }];
  }
  // Which credentials are used is the author's to say, never the data's.
  return /\{\{|\{%/.test(connection)
    ? [{ field, expected: "a connection's name or id", received: "a template" }]
    : [];
}

/** What the options' schema cannot say. */
function optionFaults(options: Record<string, unknown>, type: NodeType, at: string): Fault[] {
  const faults = whenFaults(options["run_if"], `${at}.run_if`);
  const isRoute = options["on_error"] === "route";
  if (isRoute !== (options["error_nodes"] !== undefined)) {
    const expected = isRoute ? "the nodes of the route" : "on_error: route beside it";
    faults.push({ field: `${at}.error_nodes`, expected, received: isRoute ? "nothing" : "a list alone" });
  }
  // Its steps are on record as they ended: to try again would be to find them so.
  if (options["retry"] !== undefined && type.flow && type.effect === "none") {
    faults.push({
      field: `${at}.retry`,
      expected: "nothing; the nodes inside have their own",
      received: "retry",
    });
  }
  return faults;
}

const below = (at: string, field: string): string => (field ? `${at}.${field}` : at);

/** A text that is still to be rendered may become whatever is expected; the step checks it again. */
function isLate(config: object, field: string): boolean {
  const value = readPath(config, field);
  if (typeof value !== "string") return false;
  try {
    return isTemplate(value);
  } catch {
    return true; // told as a template fault
  }
}

/** Whom a template may name: `own` only where it stands, `unseen` not yet or not from here. */
type Names = { known?: Set<string>; unseen: Set<string>; node?: string; own?: string[] };

function referenceFaults(value: unknown, at: string, names: Names): Fault[] {
  if (typeof value === "string") return textFaults(value, at, names);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => referenceFaults(item, `${at}.${key}`, names));
}

function textFaults(text: string, field: string, names: Names): Fault[] {
  let roots: Set<string>;
  try {
    roots = new Set(references(text).flatMap(([root]) => (root === undefined ? [] : [root])));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return [{ field, expected: "a template that can be read", received: error.message.slice(0, 200) }];
  }
  return [...roots].flatMap((root) => rootFaults(root, field, names, `{{ ${root.slice(0, 100)} }}`));
}

function rootFaults(root: string, field: string, names: Names, received: string): Fault[] {
  const { known, unseen, node, own } = names;
  if (own?.includes(root)) return [];
  if (root === node)
    return [{ field, expected: "a reference to an earlier node", received: `${received}, itself` }];
  if (unseen.has(root)) {
    return [
      {
        field,
        expected: "a reference to an earlier node",
        received: `${received}, a later one or one inside of another`,
      },
    ];
  }
  if (known ? known.has(root) : !NOT_HERE.has(root)) return [];
  const close = known && nearest(root, known);
  const expected = close ? `an input or an earlier node, such as ${close}` : "an input or an earlier node";
  return [{ field, expected, received }];
}
