import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { EgressError } from "../../src/egress/errors.ts";
import { createGuard, reachOf, targetOf } from "../../src/egress/guard.ts";

/** What the guard says of a URL before any name is resolved: "ok" or the class of its refusal. */
function verdict(url: string, allow: string[] = []): string {
  try {
    createGuard(allow).literal(targetOf(url));
    return "ok";
  } catch (error) {
    if (error instanceof EgressError) return error.class;
    throw error;
  }
}

const BLOCKED = `
http://127.0.0.1/ http://127.0.0.1:8080/x http://127.1/ http://127.0.1/ http://2130706433/ http://0x7f000001/
http://0x7f.1/ http://0177.0.0.1/ http://0177.1/ http://017700000001/ http://127.0.0.1./ http://127.255.255.254/
http://0/ http://0.0.0.0/ http://0.0.0.0:80/ http://%31%32%37.0.0.1/ http://１２７.０.０.１/ http://①②⑦.0.0.1/
http://127。0。0。1/ http://localhost/ http://LOCALHOST/ http://localhost./ http://foo.localhost/
http://10.0.0.1/ http://10.255.255.255/ http://172.16.0.1/ http://172.31.255.255/ http://192.168.0.1/
http://100.64.0.1/ http://192.0.0.1/ http://192.0.2.1/ http://198.18.0.1/ http://198.51.100.1/ http://203.0.113.9/
http://192.88.99.1/ http://224.0.0.1/ http://240.0.0.1/ http://255.255.255.255/
http://169.254.169.254/latest/meta-data/ http://169.254.170.2/ http://0xa9fea9fe/ http://2852039166/
http://100.100.100.200/ http://192.0.0.192/ http://168.63.129.16/ http://metadata.google.internal/ http://metadata/
http://[::1]/ http://[::]/ http://[0:0:0:0:0:0:0:1]/ http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/
http://[::127.0.0.1]/ http://[::7f00:1]/ http://[::2]/ http://[1::1]/ http://[4000::1]/ http://[::ffff:a9fe:a9fe]/
http://[64:ff9b::7f00:1]/ http://[64:ff9b:1::1]/ http://[100::1]/ http://[2001::1]/ http://[2001:db8::1]/
http://[2002:7f00:1::]/ http://[3fff::1]/ http://[5f00::1]/ http://[fc00::1]/ http://[fd00:ec2::254]/
http://[fe80::1]/ http://[fec0::1]/ http://[ff02::1]/ http://[::5efe:7f00:1]/ http://[2001:0:7f00:1::]/
http://intranet/ http://db:5432/ http://printer.local/ http://wiki.internal/ http://router.home.arpa/
`;
const BAD = [
  "",
  "example.com",
  "//example.com/",
  "ftp://example.com/",
  "file:///etc/passwd",
  "gopher://127.0.0.1:6379/_INFO",
  "data:text/plain,x",
  "javascript:alert(1)",
  "http://user@example.com/",
  "http://user:secret@example.com/",
  "http://example.com\\@127.0.0.1/",
  "http://example.com/\u0000",
  "http://exam\tple.com/",
  "http://example.com/a b",
  " http://example.com/",
  "http://example.com/\r\nHost: other",
  "http://example.com:0/",
  "http://example.com:99999/",
  "http://[::1/",
  "http://./",
  `http://example.com/${"a".repeat(2_048)}`,
];

describe("a URL is refused before any name is resolved", () => {
  for (const url of BLOCKED.trim().split(/\s+/)) {
    test(`blocked: ${url}`, () => expect(verdict(url)).toBe("blocked"));
  }
  for (const url of BAD) {
    test(`bad: ${JSON.stringify(url.slice(0, 50))}`, () => expect(verdict(url)).toBe("bad_url"));
  }
  for (const url of ["https://example.com/", "http://1.1.1.1/", "http://[2606:4700:4700::1111]:8443/a?b=c"]) {
    test(`public: ${url}`, () => expect(verdict(url)).toBe("ok"));
  }
});

describe("what the operator allows", () => {
  test("loopback opens this machine and nothing else", () => {
    expect(verdict("http://127.0.0.1:9/", ["loopback"])).toBe("ok");
    expect(verdict("http://[::1]:9/", ["loopback"])).toBe("ok");
    expect(verdict("http://localhost:9/", ["loopback"])).toBe("ok");
    expect(verdict("http://10.0.0.1/", ["loopback"])).toBe("blocked");
  });

  test("a range opens its addresses, in every notation", () => {
    expect(verdict("http://10.1.2.3/", ["10.0.0.0/8"])).toBe("ok");
    expect(verdict("http://[::ffff:10.1.2.3]/", ["10.0.0.0/8"])).toBe("ok");
    expect(verdict("http://[fd12::1]/", ["fd00::/8"])).toBe("ok");
    expect(verdict("http://192.168.0.1/", ["10.0.0.0/8"])).toBe("blocked");
  });

  test("a host with a port opens that port alone", () => {
    expect(verdict("http://receiver:8080/", ["receiver:8080"])).toBe("ok");
    expect(verdict("http://receiver:8081/", ["receiver:8080"])).toBe("blocked");
    expect(verdict("http://10.0.0.1:80/", ["10.0.0.1"])).toBe("ok");
    expect(verdict("http://[::1]:81/", ["[::1]:81"])).toBe("ok");
    expect(verdict("http://[::1]:82/", ["[::1]:81"])).toBe("blocked");
  });

  test("a host that is allowed by name may resolve to a private address, another may not", () => {
    const guard = createGuard(["receiver.internal"]);
    expect(guard.permits(targetOf("http://receiver.internal/"), "10.0.0.1")).toBe(true);
    expect(guard.permits(targetOf("http://other.example/"), "10.0.0.1")).toBe(false);
    expect(guard.permits(targetOf("http://receiver.internal/"), "169.254.169.254")).toBe(false);
  });

  test("cloud metadata stays refused whatever is allowed", () => {
    const all = ["0.0.0.0/0", "::/0", "169.254.169.254", "metadata.google.internal", "loopback"];
    for (const url of [
      "http://169.254.169.254/",
      "http://[fd00:ec2::254]/",
      "http://metadata.google.internal/",
    ]) {
      expect(verdict(url, all)).toBe("blocked");
    }
    for (const url of [
      "http://[::ffff:169.254.169.254]/",
      "http://[64:ff9b::a9fe:a9fe]/",
      "http://[2002:a9fe:a9fe::]/",
    ]) {
      expect(verdict(url, all)).toBe("blocked");
    }
    expect(() => createGuard([]).literal(targetOf("http://169.254.169.254/"), true)).toThrow(EgressError);
  });

  test("an entry that cannot be read is named", () => {
    for (const entry of ["", "*.example.com", "http://x", "a b", "host:99999", "10.0.0.0/33"]) {
      expect(() => createGuard([entry])).toThrow();
    }
  });
});

describe("reachOf", () => {
  const octet = fc.integer({ min: 0, max: 255 });

  test("an IPv4 address and its IPv6-mapped form lead to the same place", () => {
    fc.assert(
      fc.property(fc.tuple(octet, octet, octet, octet), (octets) => {
        const four = octets.join(".");
        expect(reachOf(`::ffff:${four}`)).toBe(reachOf(four));
      }),
    );
  });

  test("no IPv6 address outside of 2000::/3 is public", () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        if (/^(::ffff:|[23])/i.test(address)) return;
        expect(reachOf(address)).not.toBe("public");
      }),
      { numRuns: 500 },
    );
  });

  test("what is no address is never public", () => {
    fc.assert(
      fc.property(
        fc.string(),
        (text) => fc.pre(!/^[\d.:a-f%]+$/i.test(text)) ?? expect(reachOf(text)).toBe("private"),
      ),
    );
  });
});

test("any string is read or refused as an EgressError, and what is read is http", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.webUrl(),
        fc.string(),
        fc.string().map((s) => `http://${s}`),
      ),
      (text) => {
        try {
          expect(["http:", "https:"]).toContain(targetOf(text).url.protocol);
        } catch (error) {
          expect((error as EgressError).class).toBe("bad_url");
        }
      },
    ),
    { numRuns: 500 },
  );
});
