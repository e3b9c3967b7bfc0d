import Type from "typebox";
import { defineFlow } from "./node.ts";
import { nodeList } from "./node-list.ts";
import { whenFaults } from "./when.ts";

const WHEN =
  'A text such as "{{ score > 10 }}" (nothing, false, 0 and the empty text mean no), or an object of operators such as {"triage.score": {"gte": 10}}.';

export const condition = defineFlow({
  name: "condition",
  title: "Condition",
  description: "Runs one list of nodes or another, as a condition says.",
  effect: "none",
  input: Type.Object(
    {
      if: Type.Unknown({ description: WHEN }),
      // biome-ignore lint/suspicious/noThenProperty: a list, which nothing takes for a promise
      then: nodeList("Runs when `if` holds."),
      else_if: Type.Optional(
        Type.Array(
          Type.Object(
            {
              if: Type.Unknown({ description: WHEN }),
              // biome-ignore lint/suspicious/noThenProperty: the same
              then: nodeList("Runs when this `if` holds."),
            },
            { additionalProperties: false },
          ),
          { maxItems: 50, description: "Asked in order when `if` does not hold; the first that does runs." },
        ),
      ),
      else: Type.Optional(nodeList("Runs when nothing else does.")),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    branch: Type.Union([Type.String(), Type.Null()], {
      description: "Which list ran: then, else_if.0, else; null when none did.",
    }),
    output: Type.Unknown({ description: "The output of the last node that ran in it." }),
  }),
  check: (config) => [
    ...whenFaults(config["if"], "if"),
    ...elseIfs(config).flatMap((each, index) => whenFaults(each.if, `else_if.${index}.if`)),
  ],
  flow: {
    quick: true,
    fixed: ["then", "else_if", "else"],
    conditions: (config) => [
      { path: "if", when: config["if"] },
      ...elseIfs(config).map((each, index) => ({ path: `else_if.${index}.if`, when: each.if })),
    ],
    lists: (config) => [
      { path: "then", nodes: config["then"], names: [] },
      ...elseIfs(config).map(({ then }, index) => ({
        path: `else_if.${index}.then`,
        nodes: then,
        names: [],
      })),
      ...(config["else"] === undefined ? [] : [{ path: "else", nodes: config["else"], names: [] }]),
    ],
  },
});

const elseIfs = (config: Record<string, unknown>): { if?: unknown; then?: unknown }[] =>
  Array.isArray(config["else_if"])
    ? config["else_if"].map((each) => (typeof each === "object" && each !== null ? each : {}))
    : [];
