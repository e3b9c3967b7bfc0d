import Type from "typebox";
import type { Fault } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { defineFlow } from "./node.ts";
import { nodeList } from "./node-list.ts";

const MOST_BRANCHES = 20;
const NAME = /^[A-Za-z_][\w-]{0,99}$/;

export const parallel = defineFlow({
  name: "parallel",
  title: "Parallel",
  description: "Runs several lists of nodes at the same time and waits for all of them.",
  effect: "none",
  input: Type.Object(
    {
      branches: Type.Record(Type.String(), nodeList("A branch."), {
        description: "Lists of nodes by the name of their branch.",
      }),
      fail_on: Type.Optional(
        Type.Enum(["any", "all"], {
          description:
            "any: the first branch that fails stops the others and fails the step (the default). all: it fails when every branch has failed.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Record(Type.String(), Type.Unknown(), {
    description: "The output of each branch's last node by its name; {error} for one that failed.",
  }),
  check: ({ branches }) => branchFaults(branches),
  flow: {
    quick: true,
    fixed: ["branches"],
    lists: ({ branches }) =>
      Object.entries(isObject(branches) ? branches : {}).map(([name, nodes]) => ({
        path: `branches.${name}`,
        nodes,
        names: [],
      })),
  },
});

function branchFaults(branches: unknown): Fault[] {
  if (!isObject(branches)) return [];
  const names = Object.keys(branches);
  const faults: Fault[] = names
    .filter((name) => !NAME.test(name))
    .map((name) => ({
      field: "branches",
      expected: "names of letters, digits, _ and -, not beginning with a digit",
      received: name.slice(0, 100),
    }));
  if (names.length === 0 || names.length > MOST_BRANCHES) {
    const received = String(names.length);
    faults.push({ field: "branches", expected: `1 to ${MOST_BRANCHES} branches`, received });
  }
  return faults;
}
