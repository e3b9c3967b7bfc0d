import { expect, test } from "bun:test";
import { parseUrlencoded } from "../../src/http/form.ts";

test("a form whose percent signs spell no UTF-8 is refused, and never changed", () => {
  for (const form of ["a=%FF", "%C3=1", "a=%C3x%A9", "a=%ED%A0%80"])
    expect(() => parseUrlencoded(form)).toThrow();
  expect(parseUrlencoded("a=%C3%A9&b=100%&c=%zz&d=x+y")).toEqual({ a: "é", b: "100%", c: "%zz", d: "x y" });
});
