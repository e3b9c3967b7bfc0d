import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { canonicalAddress, clientAddress, limiterKey } from "../../src/http/client-address.ts";
import type { AnyServer } from "../../src/http/context.ts";
import { createLimiter, limitHeaders } from "../../src/http/limiter.ts";
import { TestClock } from "../helpers/clock.ts";
import { KEY, setup } from "./world.ts";

const limiterOf = (quota: number) => {
  const clock = new TestClock();
  return { clock, limiter: createLimiter({ name: "ip", quota, clock }) };
};

describe("limiter", () => {
  test("a client's quota passes, the next request does not, and a minute later it starts anew", async () => {
    const { clock, limiter } = limiterOf(3);
    const take = () => limiter.take("192.0.2.1");
    expect([take(), take(), take()].map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
      [true, 2],
      [true, 1],
      [true, 0],
    ]);
    await clock.advance(20_000);
    expect(take()).toEqual({ allowed: false, remaining: 0, reset: 40 });
    expect(limiter.take("192.0.2.2").allowed).toBe(true);
    await clock.advance(39_999);
    expect(take().allowed).toBe(false);
    await clock.advance(1);
    expect(take()).toEqual({ allowed: true, remaining: 2, reset: 60 });
  });

  test("a quota of one allows one", () => {
    const { limiter } = limiterOf(1);
    expect([limiter.take("a").allowed, limiter.take("a").allowed]).toEqual([true, false]);
  });

  test("in any sequence no window of a client lets more than the quota pass", () => {
    const step = fc.record({
      client: fc.integer({ min: 0, max: 3 }),
      wait: fc.integer({ min: 0, max: 30_000 }),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.array(step, { maxLength: 80 }), (quota, steps) => {
        let now = 0;
        const limiter = createLimiter({
          name: "ip",
          quota,
          clock: { now: () => now, after: () => () => {} },
        });
        const model = new Map<number, { start: number; passed: number }>();
        for (const { client, wait } of steps) {
          now += wait;
          let window = model.get(client);
          if (!window || now - window.start >= 60_000) window = { start: now, passed: 0 };
          model.set(client, window);
          const { allowed, remaining, reset } = limiter.take(`10.0.0.${client}`);
          expect(allowed).toBe(window.passed < quota);
          if (allowed) window.passed++;
          expect(remaining).toBe(quota - window.passed);
          expect(reset).toBe(Math.max(1, Math.ceil((window.start + 60_000 - now) / 1_000)));
        }
      }),
    );
  });

  test("a flood of fresh addresses does not give a refused client a new quota", () => {
    const { limiter } = limiterOf(2);
    const attacker = "203.0.113.7";
    limiter.take(attacker);
    limiter.take(attacker);
    for (let i = 0; i < 25_000; i++) limiter.take(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    expect(limiter.take(attacker).allowed).toBe(false);
  });

  test("a clock that was set back locks nobody out", () => {
    let now = 1_000_000;
    const limiter = createLimiter({ name: "ip", quota: 1, clock: { now: () => now, after: () => () => {} } });
    limiter.take("a");
    now = 0;
    expect(limiter.take("a").allowed).toBe(true);
  });

  test("the headers of several limits join, and the longest wait counts", () => {
    const { limiter } = limiterOf(100);
    const anonymous = { ...limiter, name: "anonymous", quota: 20 };
    expect(
      limitHeaders([
        { limiter, verdict: { allowed: true, remaining: 42, reset: 17 } },
        { limiter: anonymous, verdict: { allowed: false, remaining: 0, reset: 30 } },
      ]),
    ).toEqual({
      "ratelimit-policy": '"ip";q=100;w=60, "anonymous";q=20;w=60',
      ratelimit: '"ip";r=42;t=17, "anonymous";r=0;t=30',
      "retry-after": "30",
    });
  });
});

describe("addresses", () => {
  test("an IPv4 address is itself, also when it comes mapped into IPv6", () => {
    expect(canonicalAddress("::ffff:192.0.2.1")).toBe("192.0.2.1");
    expect(limiterKey("::ffff:192.0.2.1")).toBe("192.0.2.1");
    expect(canonicalAddress("2001:DB8:0:0::1")).toBe("2001:db8::1");
    expect(canonicalAddress("fe80::1%eth0")).toBe("fe80::1");
    for (const bad of ["", "unknown", "_hidden", "1.2.3", "0177.0.0.1", "1.2.3.4.5", "::gg"]) {
      expect(canonicalAddress(bad)).toBeUndefined();
    }
  });

  test("every address of a /64 counts as one client, its neighbour as another", () => {
    const part = fc.integer({ min: 0, max: 0xffff });
    fc.assert(
      fc.property(fc.tuple(part, part, part), fc.tuple(part, part, part, part), ([b, c, d], host) => {
        const network = `2001:${b.toString(16)}:${c.toString(16)}`;
        const text = host.map((value) => value.toString(16)).join(":");
        const key = limiterKey(`${network}:${d.toString(16)}:${text}`);
        expect(limiterKey(`${network}:${d.toString(16)}::1`)).toBe(key);
        expect(limiterKey(`${network}:${(d ^ 1).toString(16)}:${text}`)).not.toBe(key);
      }),
    );
  });

  const from = (peer: string, forwarded: string | undefined, trusted: string[]) => {
    const server = { requestIP: () => ({ address: peer, port: 1, family: "IPv4" }) } as unknown as AnyServer;
    const headers = forwarded === undefined ? undefined : { "x-forwarded-for": forwarded };
    return clientAddress(trusted)(new Request("http://localhost/", { headers }), server);
  };

  test("X-Forwarded-For of a peer that is no trusted proxy counts for nothing", () => {
    expect(from("198.51.100.1", "10.0.0.1", [])).toBe("198.51.100.1");
    expect(from("198.51.100.1", "10.0.0.1", ["10.0.0.0/8"])).toBe("198.51.100.1");
  });

  test("behind trusted proxies the first foreign address from the right is the client", () => {
    const trusted = ["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"];
    expect(from("10.0.0.1", "192.0.2.9", trusted)).toBe("192.0.2.9");
    expect(from("::ffff:10.0.0.1", "1.1.1.1, 192.0.2.9, 10.2.3.4", trusted)).toBe("192.0.2.9");
    expect(from("127.0.0.1", "192.0.2.9:4711", trusted)).toBe("192.0.2.9");
    expect(from("2001:db8::5", "[2001:4860::1]:443", trusted)).toBe("2001:4860::1");
    expect(from("10.0.0.1", "10.9.9.9", trusted)).toBe("10.9.9.9");
    expect(from("10.0.0.1", undefined, trusted)).toBe("10.0.0.1");
  });

  test("a part that is no address ends the walk at the last good one", () => {
    expect(from("10.0.0.1", "192.0.2.9, unknown, 10.0.0.2", ["10.0.0.0/8"])).toBe("10.0.0.2");
    expect(from("10.0.0.1", "x\ty", ["10.0.0.0/8"])).toBe("10.0.0.1");
  });

  test("whatever a client writes left of its own address changes nothing", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[ -~]{0,40}$/), (lie) => {
        expect(from("10.0.0.1", `${lie}, 192.0.2.9`, ["10.0.0.0/8"])).toBe("192.0.2.9");
      }),
    );
  });

  test("a range that is none stops the start", () => {
    for (const range of ["10.0.0.0/33", "proxy", "10/8", ""])
      expect(() => clientAddress([range])).toThrow("trusted_proxies");
  });
});

describe("limits over HTTP", () => {
  test("answers carry the headers, the one past the quota is 429 with Retry-After, health is exempt", async () => {
    const { ask, close } = setup({ quota: 2 });
    try {
      const first = await ask("/things/1", { headers: KEY });
      expect(first.headers.get("ratelimit-policy")).toBe('"ip";q=2;w=60');
      expect(first.headers.get("ratelimit")).toBe('"ip";r=1;t=60');
      expect(first.headers.get("retry-after")).toBeNull();
      expect((await ask("/nowhere")).headers.get("ratelimit")).toBe('"ip";r=0;t=60');
      // Refused before the key is looked at.
      const refused = await ask("/things/1");
      expect(refused.status).toBe(429);
      expect(refused.headers.get("retry-after")).toBe("60");
      expect(((await refused.json()) as { error: { code: string } }).error.code).toBe("RATE_LIMITED");
      const health = await ask("/health");
      expect([health.status, health.headers.get("ratelimit")]).toEqual([200, null]);
    } finally {
      await close();
    }
  });

  test("anonymous addresses have a stricter limit of their own", async () => {
    const { ask, close } = setup({ quota: 10, anonymousQuota: 1 });
    try {
      const first = await ask("/things/anonymous/1");
      expect(first.headers.get("ratelimit")).toBe('"ip";r=9;t=60, "anonymous";r=0;t=60');
      expect((await ask("/things/anonymous/1")).status).toBe(429);
      expect((await ask("/things/1", { headers: KEY })).status).toBe(200);
    } finally {
      await close();
    }
  });

  test("without a limit there are no headers", async () => {
    const { ask, close } = setup();
    try {
      expect((await ask("/things/1", { headers: KEY })).headers.get("ratelimit")).toBeNull();
    } finally {
      await close();
    }
  });

  test("clients behind a trusted proxy are counted apart", async () => {
    const { ask, close } = setup({ quota: 1, trustedProxies: ["127.0.0.1"] });
    try {
      const as = (address: string) => ask("/things/1", { headers: { ...KEY, "x-forwarded-for": address } });
      expect((await as("192.0.2.1")).status).toBe(200);
      expect((await as("192.0.2.2")).status).toBe(200);
      expect((await as("2001:db8::1")).status).toBe(200);
      expect((await as("2001:db8::ffff")).status).toBe(429);
      expect((await as("192.0.2.1")).status).toBe(429);
    } finally {
      await close();
    }
  });
});
