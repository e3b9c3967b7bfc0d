import Type from "typebox";
import type { Fault } from "../lib/errors.ts";
import { defineFlow } from "./node.ts";
import { nodeList } from "./node-list.ts";

export const LONGEST_WAIT_SECONDS = 366 * 86_400;

const WAYS = ["seconds", "until", "callback"];

export const wait = defineFlow({
  name: "wait",
  title: "Wait",
  description: "Holds the run for a time, until a moment, or until somebody calls back.",
  effect: "none",
  input: Type.Object(
    {
      seconds: Type.Optional(
        Type.Number({ minimum: 0, maximum: LONGEST_WAIT_SECONDS, description: "How long." }),
      ),
      until: Type.Optional(
        Type.String({
          maxLength: 40,
          description: "An ISO 8601 time with its zone, such as 2026-01-31T09:00:00Z.",
        }),
      ),
      callback: Type.Optional(
        Type.Object(
          {
            timeout_seconds: Type.Optional(
              Type.Number({
                exclusiveMinimum: 0,
                maximum: LONGEST_WAIT_SECONDS,
                description: "Goes on without a call after this long; never unless given.",
              }),
            ),
            nodes: Type.Optional(
              nodeList("Runs before the wait, with `callback.url`: tells somebody where to call."),
            ),
          },
          {
            additionalProperties: false,
            description: "Waits for a POST to an address of this wait's own, with a token of its own.",
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    resumed_by: Type.String({ description: "time, callback or timeout." }),
    body: Type.Unknown({ description: "What the caller sent; null without a call." }),
  }),
  check: waysFaults,
  flow: {
    quick: false,
    fixed: ["callback", "callback.nodes"],
    lists: ({ callback }) => {
      const nodes = (callback as { nodes?: unknown } | null | undefined)?.nodes;
      return nodes === undefined ? [] : [{ path: "callback.nodes", nodes, names: ["callback"] }];
    },
  },
});

function waysFaults(config: Record<string, unknown>): Fault[] {
  const given = WAYS.filter((way) => config[way] !== undefined);
  if (given.length === 1) return [];
  const received = given.length === 0 ? "none of them" : given.join(" and ");
  return [{ field: "", expected: `one of ${WAYS.join(", ")}`, received }];
}
