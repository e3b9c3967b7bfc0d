import Type from "typebox";
import { defineFlow } from "./node.ts";
import { nodeList } from "./node-list.ts";

export const MOST_ITEMS = 10_000;

export const forEach = defineFlow({
  name: "for_each",
  title: "For each",
  description: "Runs a list of nodes once for every item; they find it under `loop`.",
  effect: "none",
  input: Type.Object(
    {
      items: Type.Array(Type.Unknown(), {
        maxItems: MOST_ITEMS,
        description: 'A list, or a text such as "{{ search.results }}" that becomes one.',
      }),
      nodes: nodeList("Runs for every item, with `loop.item`, `loop.index`, `loop.first` and `loop.last`."),
      parallelism: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 50,
          description: "How many items are under way at once; 1 unless given.",
        }),
      ),
      on_item_error: Type.Optional(
        Type.Enum(["stop", "continue"], {
          description: "stop: the first item that fails fails the step (the default). continue: it goes on.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    results: Type.Array(Type.Unknown(), {
      description: "The last node's output of every item, in the items' order; null for one that failed.",
    }),
    errors: Type.Array(Type.Object({ index: Type.Integer(), code: Type.String(), message: Type.String() }), {
      description: "The items that failed.",
    }),
    count: Type.Integer({ description: "How many items there were." }),
  }),
  flow: {
    quick: false,
    fixed: ["nodes"],
    lists: ({ nodes }) => [{ path: "nodes", nodes, names: ["loop"] }],
  },
});
