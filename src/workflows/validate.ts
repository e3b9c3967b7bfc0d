import Type from "typebox";
import type { Fault } from "../lib/errors.ts";
import { type Json, readPath } from "../lib/json.ts";
import { nearest } from "../lib/nearest.ts";
import { json } from "../lib/schema.ts";
import { isTemplate, references, TemplateError } from "../lib/template.ts";
import { nodeType, nodeTypes } from "../nodes/index.ts";
import { schemaFaults } from "./input-schema.ts";
import type { Node, Program } from "./schema.ts";

/** Names that templates give a meaning of their own. */
const RESERVED = new Set([
  "inputs",
  "vars",
  "run",
  "event",
  "loop",
  "item",
  "index",
  "output",
  "error",
  "true",
  "false",
  "nil",
  "null",
  "empty",
  "blank",
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

/** Everything that would keep a workflow from running, with paths; nothing when it is sound. */
export function programFaults(program: Program): Fault[] {
  const faults = schemaFaults(program.input_schema);
  const inputs = Object.keys(program.input_schema.properties);
  const later = new Set(program.nodes.map((node) => node.name));
  // Without a declared input any name may be one.
  const known = inputs.length > 0 ? new Set([...inputs, ...RESERVED]) : undefined;
  const taken = new Set<string>();

  for (const [index, node] of program.nodes.entries()) {
    const at = `nodes.${index}`;
    faults.push(
      ...nameFaults(node.name, `${at}.name`, taken, inputs),
      ...configFaults(node, `${at}.input_config`),
    );
    const mapped = { config: node.input_config, output: node.output_mapping ?? null } as Json;
    faults.push(...referenceFaults(mapped, at, { known, later, node: node.name }));
    taken.add(node.name);
    later.delete(node.name);
    known?.add(node.name);
  }
  faults.push(...referenceFaults(program.output_mapping as Json, "output_mapping", { known, later }));
  return faults;
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

type Names = { known?: Set<string>; later: Set<string>; node?: string };

function referenceFaults(value: Json, at: string, { known, later, node }: Names): Fault[] {
  let paths: string[][];
  try {
    paths = references(value);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return [{ field: at, expected: "templates that can be read", received: error.message.slice(0, 200) }];
  }
  const faults: Fault[] = [];
  for (const [root] of paths) {
    if (root === undefined || (root === "output" && node !== undefined)) continue;
    const received = `{{ ${root.slice(0, 100)} }}`;
    if (root === node)
      faults.push({ field: at, expected: "a reference to an earlier node", received: `${received}, itself` });
    else if (later.has(root))
      faults.push({ field: at, expected: "a reference to an earlier node", received });
    else if (known && !known.has(root)) {
      faults.push({ field: at, expected: "a reference to an input or an earlier node", received });
    }
  }
  return faults;
}
