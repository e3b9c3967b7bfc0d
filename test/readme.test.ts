import { expect, test } from "bun:test";
import { readReadme, renderReadme } from "../scripts/readme.ts";

test("README.md lists the settings as they are; otherwise run: bun scripts/readme.ts", () => {
  const readme = readReadme();
  expect(renderReadme(readme)).toBe(readme);
});
