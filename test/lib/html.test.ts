import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LARGEST_HTML, readHtml } from "../../src/lib/html.ts";

const markdown = (html: string) =>
  readHtml(html, { format: "markdown", base: "https://e.example/p/" }).content;
const text = (html: string) => readHtml(html, { format: "text" }).content;

describe("readHtml", () => {
  test.each([
    ["<h2>One <i>two</i></h2>after", "## One _two_\n\nafter"],
    ["<p>a<p>b<br>c", "a\n\nb\nc"],
    ["x <b> bold </b> y<strong></strong>", "x **bold** y"],
    ["a <a href='/x?a=1&amp;b=2'>link\n text</a>.", "a [link text](https://e.example/x?a=1&b=2)."],
    ["<a href='javascript:alert(1)'>no</a> <a href='#top'>top</a>", "no top"],
    ["<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"],
    ["<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"],
    [
      "<table><tr><th>A<th>B<tr><td>1<td><p>x</p><p>y</p></table>z",
      "| A | B |\n| --- | --- |\n| 1 | x y |\n\nz",
    ],
    ["<pre>  a\n   b</pre>c", "```\n  a\n   b\n```\n\nc"],
    ["use <code>x  y</code> now", "use `x y` now"],
    ["<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"],
    ["a<hr>b", "a\n\n---\n\nb"],
    ["<img src=/i.png alt='a pic'><img src=/j.png>", "![a pic](https://e.example/i.png)"],
    ["a<script>if (a<b) </x></script><style>p{}</style><!-- c -->b", "ab"],
    [
      "&lt;b&gt; &euro; &#65;&#x42; &nope; &amp;amp; &#0; &#xd800; A&B",
      "<b> € AB &nope; &amp; \ufffd \ufffd A&B",
    ],
    ["no elements at all", "no elements at all"],
    ["", ""],
  ])("%s", (html, expected) => {
    expect(markdown(html)).toBe(expected);
  });

  test("as text leaves the marks out", () => {
    expect(text("<h1>T</h1><p>a <b>b</b> <a href=/x>c</a></p><table><tr><td>1<td>2</table>")).toBe(
      "T\n\na b c\n\n1\t2",
    );
  });

  test("reads title, description and links, in full where the page's address is known", () => {
    const html =
      "<head><title> A &amp;\n B </title><meta name=description content='d &quot;x&quot;'></head><a href='../q'>go</a><a href='mailto:a@b.example'>write</a>";
    const page = readHtml(html, { format: "text", base: "https://e.example/p/r" });
    expect(page).toEqual({
      title: "A & B",
      description: 'd "x"',
      content: "gowrite",
      links: [
        { text: "go", url: "https://e.example/q" },
        { text: "write", url: "mailto:a@b.example" },
      ],
    });
  });

  test("keeps the main part alone where it was asked to", () => {
    const html = "<header>h</header><nav>n</nav><main>m<aside>a</aside></main><footer>f</footer>";
    expect(readHtml(html, { format: "text", mainOnly: true }).content).toBe("m");
    expect(readHtml("<nav>n</nav>x<footer>f", { format: "text", mainOnly: true }).content).toBe("x");
  });

  test.each([
    "<div>",
    "<b>",
    "<a href=x>",
    "<table><tr><td>",
    "<ul><li>",
    "<!--",
    "<",
    "&",
    "<blockquote>x",
    "<pre>\n",
    "<title>",
  ])("takes time by the length alone of %s again and again", (piece) => {
    const time = (length: number) => {
      const started = performance.now();
      markdown(piece.repeat(length / piece.length));
      return performance.now() - started;
    };
    time(10_000);
    const [short, long] = [time(50_000), time(200_000)];
    // Four times the length: sixteen times as long would be quadratic; the 150 ms forgive a busy machine.
    expect(long).toBeLessThan(short * 10 + 150);
  });

  test("any page is read, and its text is no longer than the page allows", () => {
    const pieces = [
      "<p>",
      "</p>",
      "<b>",
      "</b>",
      "<a href='/x'>",
      "</a>",
      "<ul>",
      "<li>",
      "</ul>",
      "<table>",
      "<tr>",
      "<td>",
      "</table>",
      "<pre>",
      "</pre>",
      "x",
      " ",
      "\n",
      "&amp;",
      "<",
      "<blockquote>",
      "</blockquote>",
      "<script>",
      "</script>",
      "<title>",
      "</title>",
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 60 }), (parts) => {
        const html = parts.join("");
        expect(typeof markdown(html)).toBe("string");
        expect(text(html)).not.toMatch(/^\s|\s$/);
      }),
    );
    expect(LARGEST_HTML).toBeGreaterThan(0);
  });
});
