import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Json } from "../../src/lib/json.ts";
import { references, renderDeep, TemplateError } from "../../src/lib/template.ts";

const render = (value: Json, scope: Record<string, unknown> = {}) => renderDeep(value, scope);

describe("a template", () => {
  test("puts values into text, objects as JSON", () => {
    expect(render("Hello {{ who.name }}!", { who: { name: "Ada" } })).toBe("Hello Ada!");
    expect(render("got {{ list }}", { list: [1, { a: 2 }] })).toBe('got [1,{"a":2}]');
  });

  test("that is one output keeps the type", () => {
    const scope = { n: 3, list: [1, 2], yes: true, none: null, deep: { a: { b: [1] } } };
    expect(render({ a: "{{ n }}", b: ["{{list}}", "{{ yes }}"], c: "{{- none -}}" }, scope)).toEqual({
      a: 3,
      b: [[1, 2], true],
      c: null,
    });
    expect(render("{{ deep.a }}", scope)).toEqual({ b: [1] });
    expect(render("{{ 'a}}b' }}", scope)).toBe("a}}b");
    expect(render("{{ n }}{{ n }}", scope)).toBe("33");
  });

  test("that refers to nothing fails with the path, unless it has a default", () => {
    expect(() => render("{{ who.nam }}", { who: { name: "x" } })).toThrow("{{ who.nam }} refers to nothing");
    expect(() => render("Hi {{ missing }}", {})).toThrow(TemplateError);
    expect(render("{{ missing | default: 5 }}")).toBe(5);
    expect(render("{% if missing %}a{% else %}b{% endif %}")).toBe("b");
    // Liquid itself reads on through null and would leave a hole in the text.
    expect(() => render("Hi {{ who.name }}", { who: null })).toThrow("{{ who.name }} refers to nothing");
    expect(render("{{ who.name | default: 'you' }}", { who: null })).toBe("you");
  });

  test("has the filters people reach for", () => {
    expect(render("{{ x | base64 }}", { x: "hi" })).toBe("aGk=");
    expect(render("{{ x | sha256 }}", { x: "" })).toStartWith("e3b0c442");
    expect(render("{{ x | json }}", { x: { a: 1 } })).toBe('{"a":1}');
    expect(render("{{ t | date: '%Y-%m-%d' }}", { t: "2026-01-02T03:04:05Z" })).toBe("2026-01-02");
    expect(render("{{ t | date: '%H:%M %z' }}", { t: "2026-01-02T03:04:05+02:00" })).toBe("01:04 +0000");
    expect(render(["{{ nil }}", "{{ empty }}", "{{ 1 | divided_by: 0 }}"])).toEqual([null, "", null]);
  });

  test("does not take data for an expression", () => {
    for (const filter of ["where_exp: 'x', data", "find_exp: 'x', data", "has_exp: 'x', data"]) {
      expect(() => render(`{{ list | ${filter} }}`, { list: [1], data: "secret", secret: 1 })).toThrow(
        "undefined filter",
      );
    }
    expect(() => render("a {{ o | raw }}", { o: {} })).toThrow("undefined filter");
  });

  test.each([
    "{{",
    "{{ a | nope }}",
    "{% include 'x' %}",
    "{% render 'x' %}",
    "{% layout 'x' %}",
    "{% if %}",
  ])("%s is refused", (text) => {
    expect(() => render(text, { a: 1 })).toThrow(TemplateError);
  });

  test.each([
    "constructor",
    "__proto__",
    "a.constructor",
    "a.__proto__.polluted",
    "s.constructor.constructor",
    "list.map",
  ])("%s leads nowhere", (path) => {
    expect(() => render(`{{ ${path} }}`, { a: {}, s: "text", list: [] })).toThrow("refers to nothing");
  });

  test("that would run for ever or grow without end is stopped", () => {
    const nested = "{% for a in (1..9999) %}{% for b in (1..9999) %}x{% endfor %}{% endfor %}";
    expect(() => render(nested)).toThrow(TemplateError);
    expect(() => render("{{ x }}{{ x }}", { x: "y".repeat(200_000) })).toThrow(TemplateError);
    expect(() => render(`{{ a }}${"x".repeat(70_000)}`, { a: 1 })).toThrow(TemplateError);
  });
});

test("data comes out as it went in, whatever it looks like", () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom("{{ x }}", "{% raw %}", "{{", "}}", "{{ secret | default: 1 }}"),
  );
  fc.assert(
    fc.property(fc.jsonValue(), text, (value, inner) => {
      expect(render("{{ x }}", { x: inner })).toBe(inner);
      expect(render("<{{ x }}>", { x: inner })).toBe(`<${inner}>`);
      expect(render("{{ x }}", { x: value })).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test("references are the paths that must exist before", () => {
  expect(
    references({
      a: "{{ greet.text }} {{ name | upcase }}",
      b: ["{% for i in items %}{{ i.x }}{% endfor %}"],
    }),
  ).toEqual([["greet", "text"], ["name"], ["items"]]);
});
