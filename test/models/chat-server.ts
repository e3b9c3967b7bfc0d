/** One request to the scripted server, answered word by word as the test says. */
export class Call {
  #stream: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(
    readonly headers: Record<string, string>,
    // biome-ignore lint/suspicious/noExplicitAny: what was sent is looked at, field by field, by tests
    readonly body: any,
    readonly answer: (response: Response) => void,
    readonly gone: AbortSignal,
  ) {}

  refuse(status: number, error?: object, headers: Record<string, string> = {}): void {
    const init = { status, headers };
    this.answer(error ? Response.json({ error }, init) : new Response("<html>", init));
  }

  /** Sends bytes as they are; the head goes out with the first. */
  raw(text: string): this {
    if (!this.#stream) {
      const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
        this.#stream = controller;
      };
      const headers = { "content-type": "text/event-stream" };
      this.answer(new Response(new ReadableStream({ start }), { headers }));
    }
    this.#stream!.enqueue(new TextEncoder().encode(text));
    return this;
  }

  event(chunk: object): this {
    return this.raw(`data: ${JSON.stringify(chunk)}\n\n`);
  }

  delta(delta: object): this {
    return this.event({ choices: [{ index: 0, delta }] });
  }

  say(...words: string[]): this {
    for (const content of words) this.delta({ content });
    return this;
  }

  /** The usual end: the reason, the usage in a chunk of its own, [DONE]. */
  finish(finish_reason = "stop", usage: object = { prompt_tokens: 7, completion_tokens: 3 }): void {
    this.event({ choices: [{ index: 0, delta: {}, finish_reason }] });
    this.event({ choices: [], usage }).raw("data: [DONE]\n\n").end();
  }

  end(): void {
    this.#stream!.close();
  }

  /** The connection is cut. */
  cut(): void {
    this.#stream!.error(new Error("cut"));
  }
}

/** A server on loopback that speaks OpenAI's chat completions, each call answered by the test. */
export function chatServer() {
  const calls: Call[] = [];
  const waiting: ((call: Call) => void)[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    development: false,
    error: () => new Response(null, { status: 500 }),
    async fetch(request) {
      const body = await request.json();
      return new Promise<Response>((resolve) => {
        const call = new Call(request.headers.toJSON(), body, resolve, request.signal);
        const waiter = waiting.shift();
        if (waiter) waiter(call);
        else calls.push(call);
      });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    /** The next call, once it comes. */
    next: (): Promise<Call> => {
      const call = calls.shift();
      return call ? Promise.resolve(call) : new Promise((resolve) => waiting.push(resolve));
    },
    close: () => void server.stop(true),
  };
}
