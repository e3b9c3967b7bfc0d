import type { Fault } from "../lib/errors.ts";
import type { Json, JsonObject } from "../lib/json.ts";

/** Interface 2.5 and 6.3.8: `include_fields` are dotted paths into `data`; arrays are walked through. */
export type Filters = { include_fields: string[] };

type Tree = Map<string, Tree | "all">;

/**
 * The part of `data` that the paths name, with everything below a named field. A field that is not there
 * is left out; an empty list leaves nothing.
 */
export function includeFields(data: JsonObject, paths: string[]): JsonObject {
  return pickObject(data, treeOf(paths));
}

function treeOf(paths: string[]): Tree {
  const root: Tree = new Map();
  for (const path of paths) {
    const keys = path.split(".");
    const last = keys.pop() ?? "";
    let at: Tree | undefined = root;
    for (const key of keys) {
      const below: Tree | "all" = at.get(key) ?? new Map();
      if (below === "all") {
        at = undefined; // a shorter path took all of it already
        break;
      }
      at.set(key, below);
      at = below;
    }
    at?.set(last, "all");
  }
  return root;
}

// fromEntries defines own properties, so a field called __proto__ is copied and not obeyed.
function pickObject(value: JsonObject, tree: Tree): JsonObject {
  const picked: [string, Json][] = [];
  for (const [key, below] of tree) {
    if (!Object.hasOwn(value, key)) continue;
    const found = pick(value[key] ?? null, below);
    if (found !== undefined) picked.push([key, found]);
  }
  return Object.fromEntries(picked);
}

function pick(value: Json, tree: Tree | "all"): Json | undefined {
  if (tree === "all") return value;
  if (Array.isArray(value)) return value.flatMap((each) => pick(each, tree) ?? []);
  return typeof value === "object" && value !== null ? pickObject(value, tree) : undefined;
}

/** What the schema cannot say: every path has a name between each two dots. */
export function filterFaults({ include_fields }: Filters): Fault[] {
  return include_fields.flatMap((path, index) =>
    path.split(".").every((key) => key !== "")
      ? []
      : [
          {
            field: `filters.include_fields.${index}`,
            expected: "a field name or dotted path",
            received: "an empty name",
          },
        ],
  );
}
