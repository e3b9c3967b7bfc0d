import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { html } from "../../src/hooks/markup.ts";
import { aNode } from "../executions/nodes.ts";
import { apiCall, setVariables } from "../executions/setup.ts";
import { settled } from "../helpers/clock.ts";
import { live } from "./live.ts";

const FORM = "application/x-www-form-urlencoded";
const ORDER = {
  name: "Order <b>",
  input_schema: {
    title: "Untitled",
    description: "What you want & when.",
    required: ["name", "size"],
    properties: {
      note: { title: "Note", type: "string", maxLength: 500, ui_metadata: { order: 3 } },
      name: { title: 'Your "name"', type: "string", description: "As on the card <i>.", minLength: 2 },
      mail: { title: "Mail", type: "string", format: "email", ui_metadata: { order: 1 } },
      age: { title: "Age", type: "integer", minimum: 18, default: 20, ui_metadata: { order: 1 } },
      agreed: { title: "Agreed", type: "boolean", ui_metadata: { order: 2 } },
      size: { title: "Size", enum: ["s", "l", 3], default: "l", ui_metadata: { order: 2 } },
      tags: { title: "Tags", type: "array", items: { type: "string" }, ui_metadata: { order: 4 } },
    },
  },
  nodes: [setVariables("done", { text: "For {{ name }}", list: "{{ tags | default: nil }}" })],
};

const post = (form: Record<string, string>) => ({ body: new URLSearchParams(form).toString(), type: FORM });
const formUrl = ({ path, token }: { path: string; token: string }, more = "") =>
  `${path}/form?token=${token}${more}`;
const actionOf = (page: string) =>
  /<form method="post" action="([^"]+)"/.exec(page)![1]!.replaceAll("&amp;", "&");

describe("the form page", () => {
  test("shows every input by its kind, in their order, with label, description and what is required", async () => {
    const { aWorkflow, send } = live();
    const { status, text, headers } = await send("GET", formUrl(await aWorkflow(ORDER)));
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(text).toContain("<title>Order &lt;b&gt;</title>");
    expect(text).toContain("<p>What you want &amp; when.</p>");
    expect(text).toContain(
      '<label for="f0">Your &quot;name&quot; <span class="required">(required)</span></label>',
    );
    expect(text).toContain('<p class="hint" id="f0-hint">As on the card &lt;i&gt;.</p>');
    expect(text).toContain(
      '<input type="text" id="f0" name="name" aria-describedby="f0-hint" required minlength="2" value="">',
    );
    expect(text).toContain('<input type="email" id="f1" name="mail" value="">');
    expect(text).toContain('<input type="number" step="1" id="f2" name="age" min="18" value="20">');
    expect(text).toContain('<input type="checkbox" id="f3" name="agreed" value="true">');
    expect(text).toContain('<option value="l" selected>l</option>');
    expect(text).toContain('<textarea id="f5" name="note" maxlength="500" rows="5">');
    expect(text).toContain(
      '<textarea id="f6" name="tags" class="json" rows="5" spellcheck="false" placeholder="[ ]">',
    );
    expect([...text.matchAll(/<label for="f(\d)"/g)].map(([, at]) => at).join("")).toBe("0123456");
  });

  test("may do nothing but be looked at and send itself: no script, no frame, no referrer, no store", async () => {
    const { aWorkflow, send } = live();
    const { text, headers } = await send("GET", formUrl(await aWorkflow(ORDER)));
    const style = /<style>([\s\S]*)<\/style>/.exec(text)![1]!;
    const digest = createHash("sha256").update(style).digest("base64");
    expect(headers.get("content-security-policy")).toBe(
      `default-src 'none'; style-src 'sha256-${digest}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
    );
    expect(text).not.toContain("<script");
    expect(text).not.toContain(" style=");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("starts the run and leads to its result", async () => {
    const { aWorkflow, send, executions } = live();
    const workflow = await aWorkflow(ORDER);
    const page = await send("GET", formUrl(workflow));
    const sent = await send(
      "POST",
      `${workflow.path}/form${actionOf(page.text)}`,
      post({ name: "Ada <x>", age: "36", size: "3", tags: '["a"]', mail: "", note: "" }),
    );
    expect([sent.status, sent.text]).toEqual([303, ""]);
    const location = sent.headers.get("location")!;
    expect(location).toStartWith(`?token=${workflow.token}&execution=`);
    const result = await send("GET", `${workflow.path}/form${location}`);
    expect(result.text).toContain('<h2 class="success">Done</h2>');
    expect(result.text).toContain("<dt>text</dt><dd>For Ada &lt;x&gt;</dd>");
    expect(result.text).not.toContain("http-equiv");
    expect(result.text).toContain(`<a href="?token=${workflow.token}">Start another</a>`);
    const run = await executions.until(location.slice(-36), "success");
    expect(run).toMatchObject({
      trigger_source: "form",
      input_data: { name: "Ada <x>", age: 36, size: 3, tags: ["a"], agreed: false },
    });
  });

  test("comes back with each fault at its field and all that was typed", async () => {
    const { aWorkflow, send, executions } = live();
    const workflow = await aWorkflow(ORDER);
    const url = formUrl(workflow, `&once=${crypto.randomUUID()}`);
    const { status, text } = await send(
      "POST",
      url,
      post({ name: "A", age: "17", size: "", agreed: "true", tags: '["a"', note: "1\n<2>", mail: "x" }),
    );
    expect(status).toBe(400);
    expect(text).toContain("<title>Please check: Order &lt;b&gt;</title>");
    expect(text).toContain('role="alert"');
    // What cannot be read as JSON is told first: the rest is judged once there is an input.
    expect(text).toContain('aria-describedby="f6-fault" aria-invalid="true"');
    expect(text).toContain(
      '<p class="fault" id="f6-fault">expected JSON, received text that is not JSON. </p>',
    );
    expect(text).toContain("[&quot;a&quot;</textarea>");
    expect(text).toContain("\n1\n&lt;2&gt;</textarea>");
    expect(text).toContain('name="agreed" value="true" checked>');
    expect(actionOf(text)).toBe(url.slice(url.indexOf("?")));

    const again = await send(
      "POST",
      url,
      post({ name: "A", age: "17", size: "", tags: "[1]", mail: "x@y.de" }),
    );
    expect(again.status).toBe(400);
    expect(again.text).toContain('<a href="#f0">Your &quot;name&quot;</a>: expected at least 2 characters');
    expect(again.text).toContain('<a href="#f2">Age</a>: expected 18 or more');
    expect(again.text).toContain('<a href="#f4">Size</a>: This is needed.');
    expect(again.text).toContain('<a href="#f6">Tags</a>: 0: expected string, received number.');
    expect(executions.storage.reader.all("SELECT * FROM executions")).toHaveLength(0);
  });

  test("sent twice is one run; gone back to and changed it is another", async () => {
    const { aWorkflow, send, executions } = live();
    const workflow = await aWorkflow(ORDER);
    const url = formUrl(workflow, `&once=${crypto.randomUUID()}`);
    const fire = async (name: string) =>
      (await send("POST", url, post({ name, size: "s", age: "20" }))).headers.get("location")!;
    const [first, again, other] = [await fire("Ada"), await fire("Ada"), await fire("Bob")];
    expect(again).toBe(first);
    expect(other).not.toBe(first);
    expect(executions.storage.reader.all("SELECT * FROM executions")).toHaveLength(2);
    expect((await send("POST", formUrl(workflow, "&once=x"), post({ name: "Ada", size: "s" }))).status).toBe(
      400,
    );
  });

  test("of a run that takes longer asks again by itself", async () => {
    const { aWorkflow, send, clock } = live();
    const open: (() => void)[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Promise((resolve) => open.push(() => resolve(Response.json(["ok"])))),
    });
    try {
      const workflow = await aWorkflow({ nodes: [apiCall("call", `http://127.0.0.1:${server.port}/`)] });
      const sent = await send("POST", formUrl(workflow));
      const location = `${workflow.path}/form${sent.headers.get("location")}`;
      while (open.length === 0) await Bun.sleep(0);
      const looking = send("GET", location);
      await settled();
      await clock.advance(5_000);
      const { text } = await looking;
      expect(text).toContain('<meta http-equiv="refresh" content="1">');
      expect(text).toContain('<h2 class="running">Running</h2>');
      expect(text).not.toContain("Start another");
      const waiting = send("GET", location);
      open.shift()!();
      expect((await waiting).text).toContain("<dt>status</dt><dd>200</dd>");
    } finally {
      await server.stop(true);
    }
  });

  test("shows what the workflow answers itself, as words and from the moment it says it", async () => {
    const { aWorkflow, send } = live();
    const says = (body: unknown, headers: Record<string, string>, more: object[] = []) =>
      aWorkflow({
        nodes: [aNode("respond_to_webhook", "answer", { status: 201, headers, body }), ...more] as never,
      });
    const shown = async (workflow: Awaited<ReturnType<typeof says>>) => {
      const { headers } = await send("POST", formUrl(workflow));
      return (await send("GET", `${workflow.path}/form${headers.get("location")}`)).text;
    };
    expect(await shown(await says("Your number is <7>", {}))).toContain("Your number is &lt;7&gt;");
    expect(await shown(await says({ number: 7 }, {}))).toContain("<dt>number</dt><dd>7</dd>");
    const page = await shown(
      await says("<p>Thank <b>you</b></p><script>x()</script>", { "Content-Type": "text/html" }),
    );
    expect([page.includes("Thank you"), page.includes("x()"), page.includes("There is no output")]).toEqual([
      true,
      false,
      false,
    ]);
    expect(await shown(await says(null, {}, [setVariables("end", { last: "words" })]))).toContain("last");
    const early = await shown(await says("Early", {}, [aNode("wait", "pause", { seconds: 60 })]));
    expect([early.includes("Early"), early.includes('http-equiv="refresh"')]).toEqual([true, true]);
  });

  test("says a failure in the words of the run", async () => {
    const { aWorkflow, send } = live();
    const workflow = await aWorkflow({ ...ORDER, nodes: [setVariables("a", { x: "{{ name.missing }}" })] });
    const { headers } = await send("POST", formUrl(workflow), post({ name: "Ada", size: "s", age: "20" }));
    const { text } = await send("GET", `${workflow.path}/form${headers.get("location")}`);
    expect(text).toContain('<h2 class="failed">Failed</h2>');
    expect(text).toContain("name.missing");
  });

  test("refuses in pages that tell strangers nothing", async () => {
    const { aWorkflow, anAgent, send } = live({ quota: 1 });
    const [workflow, other, agent] = [await aWorkflow(ORDER), await aWorkflow(ORDER), await anAgent()];
    const strangers = [
      await send("GET", `${workflow.path}/form`),
      await send("GET", `${workflow.path}/form?token=`),
      await send("GET", `${workflow.path}/form?token=${other.token}`),
      await send("GET", `${workflow.path}/form?token=${agent.token}`),
      await send("GET", `/webhooks/workflows/${crypto.randomUUID()}/form?token=${workflow.token}`),
      await send("POST", `/webhooks/workflows/nothing/form?token=${workflow.token}`, post({})),
    ];
    expect(new Set(strangers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(strangers[0]!.status).toBe(401);
    expect(strangers[0]!.headers.get("content-type")).toBe("text/html; charset=utf-8");

    const { headers } = await send("POST", formUrl(other), post({ name: "Ada", size: "s", age: "20" }));
    const theirs = headers.get("location")!.slice(-36);
    expect((await send("GET", formUrl(workflow, `&execution=${theirs}`))).status).toBe(404);
    expect((await send("GET", formUrl(workflow, "&execution=x"))).status).toBe(404);
    const refused = await send("POST", formUrl(other), post({ name: "Ada", size: "s", age: "20" }));
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "60"]);
    expect(refused.text).toContain("Too many at once");
    expect((await send("POST", formUrl(workflow), { body: {} })).status).toBe(415);
  });
});

test("markup escapes every value and keeps the author's", () => {
  const list = ["<", '"', "'", "&", "`"].map((text) => html`<li>${text}</li>`);
  expect(html`<ul>${list}</ul>${undefined}${false}${0}`.text).toBe(
    "<ul><li>&lt;</li><li>&quot;</li><li>&#39;</li><li>&amp;</li><li>`</li></ul>0",
  );
});
