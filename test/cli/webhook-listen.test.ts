import { describe, expect, test } from "bun:test";
import type { Call, Flags } from "../../src/cli/command.ts";
import type { ExitError } from "../../src/cli/exit.ts";
import { ask } from "../../src/cli/loopback.ts";
import { listenForWebhooks } from "../../src/cli/webhook-listen.ts";
import { newSecret, signatureHeaders } from "../../src/webhooks/signature.ts";

/** The receiver under way: where it listens, what it printed so far, and how it ended. */
async function listening(flags: Flags) {
  const printed = { data: "", words: "" };
  const output = {
    data(text: string) {
      printed.data += text;
    },
    words(text: string) {
      printed.words += text;
    },
    attended: false,
  };
  const ended = listenForWebhooks({ output, flags: { port: "0", ...flags } } as unknown as Call);
  ended.catch(() => {});
  while (printed.words === "") await new Promise((resolve) => setImmediate(resolve));
  const url = /listening at (\S+)/.exec(printed.words)![1]!;
  const deliver = (secret: string, body = '{"event":"agent.message.sent"}', attempt = 1) =>
    ask("POST", url, {
      headers: {
        ...signatureHeaders(secret, { id: "e1", at: Date.now(), body }),
        "x-service-attempt": String(attempt),
      },
      body,
    });
  const lines = () =>
    printed.data
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  return { url, printed, ended, deliver, lines };
}

async function refusal(flags: Flags): Promise<ExitError> {
  const call = { output: { words() {}, data() {} }, flags } as unknown as Call;
  return listenForWebhooks(call).then(
    () => Promise.reject(new Error("was not refused")),
    (error) => error,
  );
}

describe("a receiver in the terminal", () => {
  const secret = newSecret();

  test("prints and verifies what arrives, and ends after as many as asked for", async () => {
    const { ended, deliver, lines, printed, url } = await listening({ secret, count: "2", json: true });
    expect((await deliver(secret)).status).toBe(200);
    await deliver(secret, '{"event":"x\\u001b[2J"}', 3);
    expect(await ended).toBe(0);
    expect(lines()).toMatchObject([
      { n: 1, verdict: "verified", status: 200, attempt: 1, body: '{"event":"agent.message.sent"}' },
      { n: 2, verdict: "verified", attempt: 3 },
    ]);
    expect(printed.words).toContain(
      `ERRAND_ALLOW_TARGETS=${new URL(url).host} errand webhooks create --url ${url}`,
    );
  });

  test("tells a forgery, and exits with 5", async () => {
    const { ended, deliver, printed } = await listening({ secret, count: "1" });
    await deliver(newSecret());
    expect(await ended).toBe(5);
    expect(printed.data).toContain("agent.message.sent  attempt 1  not genuine  answered 200  e1");
  });

  test("without a secret says that nothing is checked, and lets no control character onto the terminal", async () => {
    const { ended, deliver, printed } = await listening({ count: "1" });
    await deliver(secret, '{"event":"\\u001b[2J\u0007"}');
    expect(await ended).toBe(0);
    expect(printed.data).toContain("not checked");
    for (const control of ["\u0007", "\u001b"]) expect(printed.data).not.toContain(control);
  });

  test("fails the first deliveries, or all with one status", async () => {
    const first = await listening({ fail: "2", count: "3" });
    const statuses: number[] = [];
    for (let n = 0; n < 3; n++) statuses.push((await first.deliver(secret)).status);
    expect([statuses, await first.ended]).toEqual([[500, 500, 200], 0]);
    const all = await listening({ fail: "410", count: "1" });
    expect((await all.deliver(secret)).status).toBe(410);
    await all.ended;
  });

  test("dawdles", async () => {
    const { deliver, ended } = await listening({ slow: "0.02", count: "1" });
    const begun = performance.now();
    await deliver(secret);
    expect(performance.now() - begun).toBeGreaterThanOrEqual(19);
    await ended;
  });

  test("refuses options that mean nothing, and a port that is taken", async () => {
    for (const flags of [
      { fail: "600" },
      { fail: "x" },
      { port: "70000" },
      { slow: "-1" },
      { secret: "mine" },
    ]) {
      expect((await refusal(flags)).code).toBe(2);
    }
    const { url, deliver, ended } = await listening({ count: "1" });
    expect((await refusal({ port: new URL(url).port })).code).toBe(3);
    await deliver(secret);
    await ended;
  });
});
