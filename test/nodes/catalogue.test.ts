import { describe, expect, test } from "bun:test";
import { nodeType, nodeTypes } from "../../src/nodes/index.ts";
import { setVariables } from "../../src/nodes/set-variables.ts";
import { runWith } from "./setup.ts";

describe("the catalogue", () => {
  test("knows each node type by its name and no other", () => {
    for (const [name, type] of nodeTypes) expect(nodeType(name)).toBe(type);
    expect(nodeType("constructor")).toBeUndefined();
  });

  test.each([...nodeTypes.values()])(
    "$name is described field by field, and closed",
    ({ name, title, description, input, output }) => {
      expect(name).toMatch(/^[a-z]+(_[a-z]+)*$/);
      expect([title, description].every((text) => text.length > 0)).toBe(true);
      const fields = [input.schema, output].flatMap((schema) => Object.entries(propertiesOf(schema)));
      expect(fields.filter(([, field]) => !field.description)).toEqual([]);
      expect(input.schema).toMatchObject({ type: "object", additionalProperties: false });
    },
  );
});

const propertiesOf = (schema: object) =>
  (schema as { properties?: Record<string, { description?: string; properties?: object }> }).properties ?? {};

test("set_variables gives on its variables", async () => {
  const run = runWith();
  const variables = { a: 1, b: { c: [true, null] } };
  expect(await setVariables.run({ variables } as never, run)).toEqual({ output: variables });
  run.close();
});
