import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import type { Json } from "../../src/lib/json.ts";
import { FILTERS, references, renderDeep, TemplateError } from "../../src/lib/template.ts";

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

describe("filters", () => {
  test.each([
    ["{{ x | parse_json }}", { x: '{"a":[1]}' }, { a: [1] }],
    ["{{ x | number }}", { x: " 1.5 " }, 1.5],
    ["{{ x | keys }}", { x: { a: 1, b: 2 } }, ["a", "b"]],
    ["{{ x | values | sum }}", { x: { a: 1, b: 2 } }, 3],
    ["{{ x | add_seconds: 90 }}", { x: "2026-01-01T00:00:00Z" }, "2026-01-01T00:01:30.000Z"],
    ["{{ x | add_seconds: -1 | date: '%Y' }}", { x: 1767225600 }, "2025"],
    ["{{ x | base64_encode }} {{ x | base64 }}", { x: "h\u00e9" }, "aMOp aMOp"],
    ["{{ x | base64_decode }}", { x: "aMOp" }, "h\u00e9"],
    ["{{ x | hmac_sha256: 'key' | size }}", { x: "a" }, 64],
    [
      "{{ x | where: 'a', 1 | map: 'b' | join: '+' }}",
      {
        x: [
          { a: 1, b: 2 },
          { a: 1, b: 3 },
          { a: 2, b: 4 },
        ],
      },
      "2+3",
    ],
    ["{{ x | date: '%H:%M', 'Europe/Berlin' }}", { x: "2026-07-01T12:00:00Z" }, "14:00"],
  ] as [string, Record<string, unknown>, Json][])("%s", (template, scope, expected) => {
    expect(render(template, scope)).toEqual(expected);
  });

  test.each([
    ["{{ x | parse_json }}", "{"],
    ["{{ x | number }}", "one"],
    ["{{ x | number }}", ""],
    ["a {{ x | keys }}", [1]],
    ["a {{ x | values }}", "text"],
    ["{{ x | add_seconds: 1 }}", "no time"],
    ["{{ x | add_seconds: 'a' }}", "2026-01-01"],
  ])("%s says what is wrong, without repeating it", (template, x) => {
    expect(() => render(template, { x })).toThrow(
      /^(parse_json|number|keys|values|add_seconds): the (value|text)/,
    );
  });

  test("are all there that are told of", () => {
    for (const filter of Object.values(FILTERS).flat()) {
      const known = (() => {
        try {
          render(`{{ x | ${filter} }}`, { x: "a" });
          return true;
        } catch (error) {
          return !(error as Error).message.includes("undefined filter");
        }
      })();
      expect([filter, known]).toEqual([filter, true]);
    }
  });
});

describe("a template bomb", () => {
  const big = "y".repeat(100_000);
  test.each([
    ["many copies of a long value", Array(100).fill("{{ x }}")],
    ["many long texts", Array(100).fill("<{{ x }}>")],
    ["a list of lists", { a: Array(50).fill(Array(50).fill("{{ x }}")) }],
    [
      "a text that grows by itself",
      "{% assign a = x %}{% for i in (1..20) %}{% assign a = a | append: a %}{% endfor %}{{ a | size }}",
    ],
    [
      "a list that grows by itself",
      "{% assign a = x | split: '' %}{% for i in (1..20) %}{% assign a = a | concat: a %}{% endfor %}{{ a | size }}",
    ],
    ["captures", "{% for i in (1..1000) %}{% capture a %}{{ a }}{{ x }}{% endcapture %}{% endfor %}{{ a }}"],
    ["replacement", "{{ x | replace: 'y', x }}"],
    ["joining", "{{ x | split: '' | join: x }}"],
    ["a long range", "{{ (1..100000000) | join }}"],
    ["hashing", "{% for i in (1..9999) %}{{ x | sha256 }}{% endfor %}"],
    ["objects said again and again", "{% for i in (1..9999) %}{{ o }}{% endfor %}"],
    ["paths to long values", "{{ o.x }} ".repeat(5_000)],
    [
      "literals said again and again",
      `{% capture a %}{% for i in (1..30000) %}${"y".repeat(60_000)}{% endfor %}{% endcapture %}{{ a | size }}`,
    ],
    [
      "slow texts, none of which is too much",
      Array(100).fill("{% for i in (1..30000) %}{% if i == 1 %}{{ i }}{% endif %}{% endfor %}"),
    ],
  ])("of %s is stopped in time", (_, template) => {
    const started = performance.now();
    const scope = { x: big, a: "", o: { x: [big] } };
    expect(() => render(template as Json, scope)).toThrow(TemplateError);
    expect(performance.now() - started).toBeLessThan(4_000);
  });

  test("is counted, not timed: a machine that stands still breaks no template", () => {
    let at = 0;
    const stalled = spyOn(performance, "now").mockImplementation(() => (at += 10_000));
    try {
      expect(render("{% for i in (1..20) %}{{ i | plus: 1 }},{% endfor %}")).toEndWith(",21,");
    } finally {
      stalled.mockRestore();
    }
  });

  test("does not stop a list of a few thousand rows", () => {
    const rows = Array.from({ length: 5_000 }, (_, id) => ({ id, name: `row ${id}` }));
    const text =
      "{% for row in rows %}{% if row.id > 10 %}<li>{{ row.name | escape }}</li>{% endif %}{% endfor %}";
    expect(render(text, { rows })).toContain("<li>row 4999</li>");
  });

  test("does not stop what an earlier step may give on", () => {
    const list = Array.from({ length: 20_000 }, (_, id) => ({ id, name: "a name of some length" }));
    expect(render("{{ x }}", { x: list })).toEqual(list);
    expect(() => render("{{ x }}", { x: [big.repeat(11)] })).toThrow("a rendered value is over");
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
