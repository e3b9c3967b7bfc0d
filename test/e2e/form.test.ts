import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chromium, openBrowser, type Page } from "../helpers/browser.ts";
import { world } from "./setup.ts";

setDefaultTimeout(30_000);
const { errand, workspace } = await world();

async function formOf(workflow: object): Promise<string> {
  const { body } = await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, workflow);
  const token = await errand.api<{ url: string }>("POST", `/api/workflows/${body.id}/webhook-tokens`, {});
  return token.body.url.replace("?token=", "/form?token=");
}

const WORKFLOW = {
  name: "Greet",
  input_schema: {
    title: "Greeting",
    description: "Says hello.",
    required: ["name", "size"],
    properties: {
      name: { title: "Name", type: "string", description: "Whom to greet.", ui_metadata: { order: 1 } },
      size: { title: "Size", enum: ["small", "large"], ui_metadata: { order: 2 } },
      loud: { title: "Loud", type: "boolean", ui_metadata: { order: 3 } },
      tags: { title: "Tags", type: "array", items: { type: "string" }, ui_metadata: { order: 4 } },
    },
  },
  nodes: [
    {
      node_type_name: "set_variables",
      name: "greet",
      input_config: { variables: { text: "Hello {{ name }}", size: "{{ size }}", loud: "{{ loud }}" } },
    },
  ],
};

describe.skipIf(chromium === undefined)(
  `the form page in a browser${chromium ? "" : " (skipped: no Chromium on this machine)"}`,
  () => {
    let page: Page;
    beforeAll(async () => {
      page = await openBrowser();
    });
    afterAll(() => page.close());
    const text = (selector: string) =>
      page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`);
    const focus = (name: string) => page.evaluate(`document.querySelector('[name=${name}]').focus()`);

    test("is filled in by keyboard, shows its faults with what was typed, and then the result", async () => {
      await page.open(await formOf(WORKFLOW));
      expect(await page.evaluate("document.title")).toBe("Greeting");
      const labels = await page.evaluate<string[]>(
        "[...document.querySelectorAll('input, select, textarea')].map((field) => field.labels[0].innerText)",
      );
      expect(labels).toEqual(["Name (required)", "Size (required)", "Loud", "Tags"]);

      await focus("name");
      await page.type('Ada "<b>"');
      await page.evaluate("document.querySelector('[name=size]').value = 'large'");
      await focus("loud");
      await page.press(" ", "Space", 32);
      await focus("tags");
      await page.type("not json");
      await page.after(() => page.evaluate("document.querySelector('button').click()"));
      expect(await page.evaluate("document.title")).toBe("Please check: Greeting");
      expect(await text("[role=alert]")).toContain("Tags: expected JSON");
      expect(await page.evaluate("document.querySelector('[aria-invalid]').name")).toBe("tags");
      expect(
        await page.evaluate(
          "['name', 'size', 'tags'].map((name) => document.querySelector(`[name=${name}]`).value)",
        ),
      ).toEqual(['Ada "<b>"', "large", "not json"]);
      expect(await page.evaluate("document.querySelector('[name=loud]').checked")).toBe(true);

      await page.evaluate("document.querySelector('[name=tags]').value = '[\"a\"]'");
      await page.after(() => page.evaluate("document.querySelector('button').click()"));
      expect(await text("h2")).toBe("Done");
      expect(await text("dl")).toContain('Hello Ada "<b>"');
      expect(await text("dl")).toContain("large");
    });

    test("is styled by its own sheet, in the dark too, and fits a small screen", async () => {
      await page.call("Emulation.setDeviceMetricsOverride", {
        width: 320,
        height: 640,
        deviceScaleFactor: 1,
        mobile: true,
      });
      const colours = async (scheme: string) => {
        const features = [{ name: "prefers-color-scheme", value: scheme }];
        await page.call("Emulation.setEmulatedMedia", { features });
        await page.open(await formOf(WORKFLOW));
        return page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
      };
      const [light, dark] = [await colours("light"), await colours("dark")];
      expect([light, dark]).toEqual(["rgb(244, 245, 247)", "rgb(19, 21, 24)"]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(320);
      await page.call("Emulation.clearDeviceMetricsOverride");
    });

    test("follows a run that takes its time, without a script", async () => {
      let release = () => {};
      const server = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        fetch: () =>
          new Promise((resolve) => {
            release = () => resolve(Response.json("late"));
          }),
      });
      afterAll(() => server.stop(true));
      const url = `http://127.0.0.1:${server.port}/`;
      const call = { node_type_name: "api_call", name: "call", input_config: { url } };
      await page.open(await formOf({ name: "Slow", nodes: [call] }));
      await page.after(() => page.evaluate("document.querySelector('button').click()"));
      expect(await text("h2")).toBe("Running");
      await page.after(async () => release());
      expect(await text("h2")).toBe("Done");
    });

    test("says no in words", async () => {
      const url = await formOf(WORKFLOW);
      await page.open(url.slice(0, -1));
      expect(await text("h1")).toBe("This address does not open anything");
    });
  },
);
