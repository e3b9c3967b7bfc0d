import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseText, UnreadableData } from "../../src/lib/data-formats.ts";
import { FORMATS } from "../../src/lib/formats.ts";

const deep = (open: string, close: string) => open.repeat(5_000) + close.repeat(5_000);

describe("parseText", () => {
  test.each([
    [
      'a;b\n1;"x\ny"\n\n2',
      [
        { a: "1", b: "x\ny" },
        { a: "2", b: null },
      ],
    ],
    ["\ufeffa,a,\n1,2,3,4", [{ a: "1", a_2: "2", column_3: "3", column_4: "4" }]],
    ['a\tb\n"1,2"\t3', [{ a: "1,2", b: "3" }]],
    ["", []],
  ])("CSV %j", (text, rows) => {
    expect(parseText(text, "csv")).toEqual(rows as never);
  });

  test("CSV without a header, or with names of its own", () => {
    expect(parseText("1,2", "csv", { header: false })).toEqual([["1", "2"]]);
    expect(parseText("1,2", "csv", { header: ["x", "y"], convert_values: true })).toEqual([{ x: 1, y: 2 }]);
    expect(() => parseText('"a', "csv")).toThrow(UnreadableData);
  });

  test("a column called __proto__ is a column", () => {
    const [row] = parseText("__proto__,b\n1,2", "csv") as [object];
    expect(Object.keys(row)).toEqual(["__proto__", "b"]);
    expect(Object.getPrototypeOf(row)).toBe(Object.prototype);
  });

  test("values are converted only where they would come back the same", () => {
    const text = "a,b,c,d,e,f,g\n1.5,007,1e9,true,,-0,12345678901234567890";
    expect(parseText(text, "csv", { convert_values: true })).toEqual([
      { a: 1.5, b: "007", c: "1e9", d: true, e: "", f: 0, g: "12345678901234567890" },
    ]);
  });

  test("XML with attributes, text and repetition", () => {
    const text = "<?xml version='1.0'?><r a='1 &amp; 2'><i>x &lt; &#65;</i><i>7</i><e/><![CDATA[<raw>]]></r>";
    expect(parseText(text, "xml")).toEqual({
      r: { "@a": "1 & 2", i: ["x < A", "7"], e: "", "#text": "<raw>" },
    });
    expect(parseText("<r><i>7</i></r>", "xml", { convert_values: true })).toEqual({ r: { i: 7 } });
  });

  test.each([
    '<!DOCTYPE r [<!ENTITY x "y">]><r>&x;</r>',
    '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>',
    "<a><b></a></b>",
    "<a",
    "<a><__proto__>1</__proto__></a>",
    deep("<a>", "</a>"),
  ])("XML that is refused: %#", (text) => {
    expect(() => parseText(text, "xml")).toThrow(UnreadableData);
  });

  test("YAML, its aliases written out as long as that is not much", () => {
    expect(parseText("a: &x [1, 2]\nb: *x\nc: {d: ~}", "yaml")).toEqual({
      a: [1, 2],
      b: [1, 2],
      c: { d: null },
    });
    let bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (let i = 1; i < 9; i++)
      bomb += `a${i}: &a${i} [${Array(10)
        .fill(`*a${i - 1}`)
        .join(",")}]\n`;
    for (const text of [
      bomb,
      "a: &x {b: *x}",
      deep("[", "]"),
      "[1",
      `a: &a [${"1,".repeat(3_000)}]\nb: [${"*a,".repeat(3_000)}]`,
    ])
      expect(() => parseText(text, "yaml")).toThrow(UnreadableData);
  });

  test("JSON lines and query strings", () => {
    expect(parseText('{"a":1}\n\n2\r\n', "json_lines")).toEqual([{ a: 1 }, 2]);
    expect(() => parseText("1\nx", "json_lines")).toThrow("Line 2 is not JSON.");
    expect(parseText("?a=1&b=x+y&a=%F0%9F&__proto__=2", "query")).toEqual(
      JSON.parse('{"a":["1","\ufffd"],"b":"x y","__proto__":"2"}'),
    );
  });

  test.each(FORMATS.filter((format) => format !== "query"))(
    "%s nested past all reason is refused",
    (format) => {
      if (format === "csv") return;
      const text = format === "xml" ? deep("<a>", "</a>") : deep("[", "]");
      expect(() => parseText(text, format)).toThrow(UnreadableData);
    },
  );

  test("any text is read or refused, in every format, and what is read is JSON", () => {
    const piece = fc.constantFrom(
      "<a>",
      "</a>",
      "<",
      "&",
      "'",
      '"',
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "\n",
      "- ",
      "*x",
      "&x ",
      "1",
      "a",
      "!!",
      "|",
      ";",
      "=",
      "%",
      "<!",
      "?>",
      "---\n",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), fc.constantFrom(...FORMATS), (parts, format) => {
        try {
          const data = parseText(parts.join(""), format, { convert_values: true });
          expect(JSON.parse(JSON.stringify(data))).toEqual(data);
        } catch (error) {
          expect(error).toBeInstanceOf(UnreadableData);
        }
      }),
      { numRuns: 500 },
    );
  });
});
