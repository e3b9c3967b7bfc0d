import Type from "typebox";
import type { Fault } from "../lib/errors.ts";
import { isObject, readPath } from "../lib/json.ts";
import { nearest } from "../lib/nearest.ts";
import { json } from "../lib/schema.ts";
import { isTemplate, references, TemplateError } from "../lib/template.ts";
import { nodeType, nodeTypes } from "../nodes/index.ts";
import { inputSchemaFaults } from "./input-schema.ts";
import type { Node, Program } from "./schema.ts";

/** What every template can name, */
const ALWAYS = ["inputs", "vars", "run", "event"];
/** what only some can, inside of loops and output mappings, */
const NOT_HERE = new Set(["loop", "item", "index", "output", "error"]);
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
      on_error: Type.Optional(Type.Enum(["stop", "continue", "default"])),
      default_output: Type.Optional(Type.Unknown()),
      pinned_output: Type.Optional(Type.Unknown()),
      on_unknown: Type.Optional(Type.Enum(["retry", "fail"])),
    },
    { additionalProperties: false },
  ),
);

const MOST_FAULTS = 100;

/** Everything that would keep a workflow from running, with paths, at most 100; nothing when it is sound. */
export function programFaults(program: Program): Fault[] {
  const faults = inputSchemaFaults(program.input_schema);
  const inputs = Object.keys(program.input_schema.properties);
  const names: Names = {
    // Without a declared input any name may be one.
    known: inputs.length > 0 ? new Set([...inputs, ...ALWAYS]) : undefined,
    later: new Set(program.nodes.map((node) => node.name)),
  };
  const taken = new Set<string>();
  for (const [index, node] of program.nodes.entries()) {
    const at = `nodes.${index}`;
    faults.push(
      ...nameFaults(node.name, `${at}.name`, taken, inputs),
      ...configFaults(node, `${at}.input_config`),
      ...referenceFaults(renderedPart(node), `${at}.input_config`, { ...names, node: node.name }),
      ...referenceFaults(node.output_mapping, `${at}.output_mapping`, {
        ...names,
        node: node.name,
        own: "output",
      }),
    );
    taken.add(node.name);
    names.later.delete(node.name);
    names.known?.add(node.name);
  }
  faults.push(...referenceFaults(program.output_mapping, "output_mapping", names));
  return faults.slice(0, MOST_FAULTS);
}

/** What a step renders: these two options are taken as they are. */
function renderedPart({ input_config: { _options, ...config } }: Node): unknown {
  if (!isObject(_options)) return config;
  const { default_output, pinned_output, ...options } = _options;
  return { ...config, _options: options };
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
  const inConfig = type.input
    .faults(config)
    .filter((fault) => !isLate(config, fault.field))
    .map((fault) => ({ ...fault, field: below(at, fault.field) }));
  const inOptions = _options === undefined ? [] : Options.faults(_options);
  return [
    ...inConfig,
    ...(type.check?.(config) ?? []).map((fault) => ({ ...fault, field: below(at, fault.field) })),
    ...inOptions.map((fault) => ({ ...fault, field: below(`${at}._options`, fault.field) })),
  ];
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

/** Whom a template may name: `own` only where it stands, `later` not yet. */
type Names = { known?: Set<string>; later: Set<string>; node?: string; own?: string };

function referenceFaults(value: unknown, at: string, names: Names): Fault[] {
  if (typeof value === "string") return textFaults(value, at, names);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => referenceFaults(item, `${at}.${key}`, names));
}

function textFaults(text: string, field: string, { known, later, node, own }: Names): Fault[] {
  let roots: Set<string>;
  try {
    roots = new Set(references(text).flatMap(([root]) => (root === undefined ? [] : [root])));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return [{ field, expected: "a template that can be read", received: error.message.slice(0, 200) }];
  }
  const faults: Fault[] = [];
  for (const root of roots) {
    const received = `{{ ${root.slice(0, 100)} }}`;
    if (root === own) continue;
    if (root === node)
      faults.push({ field, expected: "a reference to an earlier node", received: `${received}, itself` });
    else if (later.has(root))
      faults.push({
        field,
        expected: "a reference to an earlier node",
        received: `${received}, a later one`,
      });
    else if (known ? !known.has(root) : NOT_HERE.has(root)) {
      const close = known && nearest(root, known);
      const expected = close
        ? `an input or an earlier node, such as ${close}`
        : "an input or an earlier node";
      faults.push({ field, expected, received });
    }
  }
  return faults;
}
