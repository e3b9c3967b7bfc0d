import Type, { type Static } from "typebox";
import type { Fault } from "../lib/errors.ts";
import { isObject, type Json, type JsonObject, readPath } from "../lib/json.ts";
import { conditionFaults, evaluate } from "../webhooks/conditions.ts";
import { inOrder, keyOf } from "./list-order.ts";
import { FUNCTIONS, summarize } from "./list-summary.ts";
import { defineNode, NodeError } from "./node.ts";

const MOST_ITEMS = 20_000;
const closed = { additionalProperties: false } as const;
const path = (description: string) => Type.String({ minLength: 1, maxLength: 200, description });
const count = (description: string) => Type.Integer({ minimum: 0, description });

const Summary = Type.Record(
  Type.String(),
  Type.Object(
    {
      function: Type.Enum([...FUNCTIONS], { description: "What to work out." }),
      field: Type.Optional(path("Field of the items, a dotted path; the items themselves unless given.")),
      separator: Type.Optional(
        Type.String({ maxLength: 100, description: 'Between texts of join; ", " unless given.' }),
      ),
    },
    closed,
  ),
  { maxProperties: 20 },
);

const Operation = Type.Union([
  Type.Object(
    {
      operation: Type.Literal("filter"),
      where: Type.Record(Type.String(), Type.Unknown(), {
        description:
          "Conditions as webhooks have them: field to value, or to eq, ne, lt, lte, gt, gte, in, nin, exists, contains, starts_with, ends_with, not; any: a list of which one must hold.",
      }),
    },
    closed,
  ),
  Type.Object(
    {
      operation: Type.Literal("sort"),
      field: Type.Optional(path("What to sort by; the items themselves unless given.")),
      order: Type.Optional(
        Type.Enum(["asc", "desc"], { description: "asc unless given; nothing comes last." }),
      ),
    },
    closed,
  ),
  Type.Object(
    {
      operation: Type.Literal("limit"),
      count: count("How many to keep."),
      from: Type.Optional(Type.Enum(["start", "end"], { description: "start unless given." })),
    },
    closed,
  ),
  Type.Object(
    { operation: Type.Literal("skip"), count: count("How many to leave out at the start.") },
    closed,
  ),
  Type.Object({ operation: Type.Literal("reverse") }, closed),
  Type.Object(
    {
      operation: Type.Literal("unique"),
      field: Type.Optional(path("What must differ; the whole item unless given. The first is kept.")),
    },
    closed,
  ),
  Type.Object(
    {
      operation: Type.Literal("map"),
      field: Type.Optional(path("Each item becomes this field of it; null where it has none.")),
      fields: Type.Optional(
        Type.Record(Type.String(), path("Path in the item."), {
          maxProperties: 100,
          description: "Each item becomes an object: new names to paths.",
        }),
      ),
    },
    closed,
  ),
  Type.Object({ operation: Type.Literal("flatten") }, closed),
  Type.Object(
    {
      operation: Type.Literal("chunk"),
      size: Type.Integer({ minimum: 1, description: "Items in each part." }),
    },
    closed,
  ),
  Type.Object(
    {
      operation: Type.Literal("group"),
      field: path("Items of one value come together, as {key, count, items}."),
      summary: Type.Optional(Summary),
      keep_items: Type.Optional(
        Type.Boolean({ description: "Whether a group holds its items; true unless given." }),
      ),
    },
    closed,
  ),
]);
type Operation = Static<typeof Operation>;

export const listOperations = defineNode({
  name: "list_operations",
  title: "List operations",
  description: "Filters, sorts, cuts, groups and sums up a list, one operation after the other.",
  effect: "none",
  input: Type.Object(
    {
      list: Type.Array(Type.Unknown(), {
        maxItems: MOST_ITEMS,
        description: `The list, at most ${MOST_ITEMS} items.`,
      }),
      operations: Type.Optional(
        Type.Array(Operation, {
          maxItems: 20,
          description: "In order: filter, sort, limit, skip, reverse, unique, map, flatten, chunk, group.",
        }),
      ),
      summary: Type.Optional(
        Type.Intersect([Summary], {
          description: `Figures of what is left, by name: ${FUNCTIONS.join(", ")}.`,
        }),
      ),
    },
    closed,
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: "What is left." }),
    count: Type.Integer({ description: "How many items are left." }),
    first: Type.Unknown({ description: "The first item, null where there is none." }),
    last: Type.Unknown({ description: "The last item, null where there is none." }),
    summary: Type.Record(Type.String(), Type.Unknown(), { description: "The figures, by name." }),
  }),
  check: ({ operations }) =>
    Array.isArray(operations) ? operations.flatMap((one, index) => faultsOf(one, `operations.${index}`)) : [],
  now({ list, operations = [], summary = {} }) {
    let items = list as Json[];
    for (const [index, operation] of operations.entries()) {
      const fault = faultsOf(operation, `operations.${index}`)[0];
      if (fault)
        throw new NodeError(
          "INVALID_CONFIG",
          `${fault.field}: expected ${fault.expected}, received ${fault.received}`,
        );
      items = apply(items, operation);
      if (items.length > MOST_ITEMS)
        throw new NodeError("LIST_TOO_LONG", `A list has at most ${MOST_ITEMS} items.`);
    }
    const output = { items, count: items.length, first: items[0] ?? null, last: items.at(-1) ?? null };
    return { output: { ...output, summary: summarize(items, summary) } };
  },
});

function faultsOf(operation: unknown, at: string): Fault[] {
  if (!isObject(operation)) return [];
  if (operation["operation"] === "filter" && isObject(operation["where"]))
    return conditionFaults(operation["where"], `${at}.where`);
  const isMap = operation["operation"] === "map";
  const given = [operation["field"], operation["fields"]].filter((one) => one !== undefined).length;
  return isMap && given !== 1
    ? [{ field: at, expected: "either field or fields", received: given === 0 ? "neither" : "both" }]
    : [];
}

const at = (item: Json, field: string | undefined): Json =>
  field === undefined ? item : ((readPath(item, field) ?? null) as Json);

function apply(items: Json[], operation: Operation): Json[] {
  switch (operation.operation) {
    case "filter":
      return items.filter((item) => evaluate(operation.where as JsonObject, asObject(item)).holds);
    case "sort": {
      const { field, order } = operation;
      return inOrder(items, (item) => at(item, field), order === "desc");
    }
    case "limit":
      if (operation.from === "end") return operation.count === 0 ? [] : items.slice(-operation.count);
      return items.slice(0, operation.count);
    case "skip":
      return items.slice(operation.count);
    case "reverse":
      return items.toReversed();
    case "unique":
      return [...grouped(items, operation.field).values()].map((group) => group[0]!);
    case "map":
      return items.map((item) =>
        operation.fields ? picked(item, operation.fields) : at(item, operation.field),
      );
    case "flatten":
      return items.flat() as Json[];
    case "chunk":
      return Array.from({ length: Math.ceil(items.length / operation.size) }, (_, index) =>
        items.slice(index * operation.size, (index + 1) * operation.size),
      );
    case "group": {
      const { field, summary, keep_items = true } = operation;
      return [...grouped(items, field).values()].map((group) => ({
        key: at(group[0]!, field),
        count: group.length,
        ...(keep_items ? { items: group } : {}),
        ...(summary ? { summary: summarize(group, summary) } : {}),
      }));
    }
  }
}

// Conditions name fields; of an item that is no object, `value` is the item itself.
const asObject = (item: Json): JsonObject => (isObject(item) ? (item as JsonObject) : { value: item });

function grouped(items: Json[], field: string | undefined): Map<string, Json[]> {
  const groups = new Map<string, Json[]>();
  for (const item of items) {
    const key = keyOf(at(item, field));
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

const picked = (item: Json, fields: Record<string, string>): JsonObject =>
  Object.fromEntries(Object.entries(fields).map(([name, from]) => [name, at(item, from)]));
