import { existsSync } from "node:fs";
import { discard, scratch } from "../../scripts/lib/errand.ts";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where a Chromium lies on this machine; undefined where there is none, and its tests are skipped. */
export const chromium: string | undefined =
  process.env["CHROMIUM"] ?? PLACES.find((place) => existsSync(place));

type Message = {
  id?: number;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { message: string };
};

export type Page = Awaited<ReturnType<typeof openBrowser>>;

/** A headless Chromium with one empty page, told what to do by its own protocol; without scripts if so wished. */
export async function openBrowser() {
  if (!chromium) throw new Error("no Chromium on this machine");
  const profile = scratch();
  const process = Bun.spawn(
    [
      chromium,
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--no-first-run",
      "--disable-background-networking",
      "--remote-debugging-port=0",
      `--user-data-dir=${profile}`,
      "about:blank",
    ],
    { stderr: "pipe", stdout: "ignore" },
  );
  const origin = (await debuggerOf(process.stderr)).replace(/^ws:\/\/([^/]+)\/.*/, "http://$1");
  const pages = (await (await fetch(`${origin}/json`)).json()) as {
    type: string;
    webSocketDebuggerUrl: string;
  }[];
  const socket = new WebSocket(pages.find(({ type }) => type === "page")!.webSocketDebuggerUrl);
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));

  const waiting = new Map<number, (message: Message) => void>();
  let heard: ((method: string) => void)[] = [];
  let id = 0;
  socket.addEventListener("message", ({ data }) => {
    const message = JSON.parse(String(data)) as Message;
    if (message.id !== undefined) waiting.get(message.id)?.(message);
    else if (message.method) for (const hear of heard) hear(message.method);
  });

  function call<T = unknown>(method: string, params: object = {}): Promise<T> {
    id++;
    const answer = new Promise<Message>((resolve) => waiting.set(id, resolve));
    socket.send(JSON.stringify({ id, method, params }));
    return answer.then(({ result, error }) => {
      if (error) throw new Error(`${method}: ${error.message}`);
      return result as T;
    });
  }

  /** Resolves when the next page has loaded. */
  const loaded = () =>
    new Promise<void>((resolve) => {
      const hear = (method: string) => {
        if (method !== "Page.loadEventFired") return;
        heard = heard.filter((one) => one !== hear);
        resolve();
      };
      heard.push(hear);
    });

  type Evaluated = { result: { value: unknown }; exceptionDetails?: { exception: { description: string } } };
  async function evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await call<Evaluated>("Runtime.evaluate", {
      expression,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
    return result.value as T;
  }

  async function after(action: () => Promise<unknown>): Promise<void> {
    const arrival = loaded();
    await action();
    await arrival;
  }

  await call("Page.enable");
  return {
    call,
    /** Opens an address and waits until it is there. */
    open: (url: string) => after(() => call("Page.navigate", { url })),
    /** What an expression comes to in the page. */
    evaluate,
    /** Does something that leads to another page, and waits for that. */
    after,
    /** Types as a person does, into what has the focus. */
    type: (text: string) => call("Input.insertText", { text }),
    press: async (key: string, code: string, virtual: number) => {
      const event = { key, code, windowsVirtualKeyCode: virtual, text: key === "Enter" ? "\r" : key };
      await call("Input.dispatchKeyEvent", { type: "keyDown", ...event });
      await call("Input.dispatchKeyEvent", { type: "keyUp", ...event });
    },
    screenshot: async () => (await call<{ data: string }>("Page.captureScreenshot")).data,
    async close() {
      socket.close();
      process.kill();
      await process.exited;
      discard(profile);
    },
  };
}

async function debuggerOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    const found = /DevTools listening on (ws:\S+)/.exec(text)?.[1];
    if (found) return found;
  }
  throw new Error(`Chromium did not start: ${text.slice(-500)}`);
}
