import { expect, test } from "bun:test";
import { createHostWatch } from "../../src/http/host-watch.ts";
import { KEY, setup } from "./world.ts";

const watched = (publicUrl: string) => {
  const noticed: string[] = [];
  const see = createHostWatch({ publicUrl: () => publicUrl, noticed: (host) => noticed.push(host) });
  return (...hosts: string[]) => {
    for (const host of hosts) see(host);
    return noticed;
  };
};

test("the public address's own name is no news, with its usual port or without, in any case", () => {
  expect(watched("https://errand.example")("errand.example", "errand.example:443", "ERRAND.example")).toEqual(
    [],
  );
  expect(watched("http://errand.example:7070/sub")("errand.example:7070")).toEqual([]);
});

test("loopback is whoever stands at the machine", () => {
  expect(
    watched("https://errand.example")("localhost:7070", "127.0.0.1", "127.8.8.8:1", "[::1]:7070"),
  ).toEqual([]);
});

test("another name is told once, and no other after it", () => {
  const see = watched("http://127.0.0.1:7070");
  expect(see("errand.example", "errand.example", "other.example")).toEqual(["errand.example"]);
  expect(watched("https://errand.example")("errand.example:8443")).toEqual(["errand.example:8443"]);
  expect(watched("https://errand.example")("127.0.0.1.evil.example")).toEqual(["127.0.0.1.evil.example"]);
});

test("only who was let in is listened to", async () => {
  const seen: string[] = [];
  const world = setup({ hosts: (host) => seen.push(host) });
  try {
    const ask = (path: string, host: string, headers = {}) =>
      world.ask(path, { headers: { host, ...headers } });
    await ask("/things/1", "stranger.example");
    await ask("/health", "probe.example");
    await ask("/nowhere", "lost.example", KEY);
    expect(seen).toEqual([]);
    await ask("/things/1", "errand.example", KEY);
    expect(seen).toEqual(["errand.example"]);
  } finally {
    await world.close();
  }
});
