import ipaddr from "ipaddr.js";
import { EgressError } from "./errors.ts";

/** Where an address leads. `metadata` (cloud instance metadata) is refused whatever is allowed. */
export type Reach = "public" | "private" | "loopback" | "metadata";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Parsed when first asked for: most programs that begin are commands that connect to nobody. */
function ranges(...cidrs: string[]): () => Range[] {
  let parsed: Range[] | undefined;
  return () => (parsed ??= cidrs.map((cidr) => ipaddr.parseCIDR(cidr)));
}
const inside = (address: Address, list: Range[]): boolean =>
  list.some(([net, bits]) => net.kind() === address.kind() && address.match(net, bits));

const METADATA = ranges(
  "169.254.0.0/16", // AWS, Google, Azure and most others
  "100.100.100.200/32", // Alibaba
  "192.0.0.192/32", // Oracle
  "168.63.129.16/32", // Azure's host agent, in public space
  "fe80::/10",
  "fd00:ec2::/32", // AWS
  "fd20:ce::/32", // Google
  "fd00:c1::/32", // Oracle
);
const METADATA_NAMES = new Set([
  "metadata",
  "metadata.google.internal",
  "instance-data",
  "instance-data.ec2.internal",
]);

// ipaddr.js calls addresses outside of 2000::/3 "unicast" (::7f00:1, 4000::1) and lags behind IANA's
// register of special ranges; what is not global unicast in both readings is not public.
const GLOBAL_UNICAST = ranges("2000::/3");
const SPECIAL = ranges(
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "3fff::/20",
  "192.88.99.0/24",
  "198.18.0.0/15",
);

// IPv6 forms that a translator or tunnel turns into IPv4: [prefix, byte at which the IPv4 address starts].
const EMBEDDED = ranges("::/96", "64:ff9b::/96", "2002::/16");
const EMBEDDED_AT = [12, 12, 2];

/** Sorts an address literal as the resolver or a URL gives it. Whatever is not an address is private. */
export function reachOf(text: string): Reach {
  const address = parse(text);
  if (!address) return "private";
  if (inside(address, METADATA())) return "metadata";
  if (address.kind() === "ipv6") {
    const six = address as ipaddr.IPv6;
    if (six.isIPv4MappedAddress()) return reachOf(six.toIPv4Address().toString());
    for (const [index, range] of EMBEDDED().entries()) {
      const at = EMBEDDED_AT[index]!;
      if (!inside(six, [range])) continue;
      const four = new ipaddr.IPv4(six.toByteArray().slice(at, at + 4)).toString();
      if (reachOf(four) === "metadata") return "metadata";
    }
  }
  const range = address.range();
  if (range === "loopback") return "loopback";
  if (range !== "unicast" || inside(address, SPECIAL())) return "private";
  return address.kind() === "ipv4" || inside(address, GLOBAL_UNICAST()) ? "public" : "private";
}

function parse(text: string): Address | undefined {
  const bare = text.split("%", 1)[0] ?? "";
  // ipaddr.js reads ::1.2.3.4 as ::ffff:1.2.3.4, which is another address.
  const compatible = /^::((?:\d{1,3}\.){3}\d{1,3})$/.exec(bare)?.[1];
  if (compatible && ipaddr.IPv4.isValid(compatible)) {
    return new ipaddr.IPv6([...Array<number>(12).fill(0), ...ipaddr.IPv4.parse(compatible).octets]);
  }
  return ipaddr.isValid(bare) ? ipaddr.parse(bare) : undefined;
}

/** What a URL asks for, after parsing: the host as it is resolved, never as it was typed. */
export type Target = {
  url: URL;
  secure: boolean;
  host: string;
  port: number;
  path: string;
  origin: string;
  literal: boolean;
};

const LONGEST_URL = 2_048;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const ODD_CHARACTER = /[\u0000-\u0020\u007f\\]/;

/** Throws EgressError `bad_url` for anything but a plain http(s) URL without credentials. */
export function targetOf(text: string): Target {
  const bad = (why: string) => new EgressError("bad_url", why);
  if (text.length > LONGEST_URL) throw bad(`a URL has at most ${LONGEST_URL} characters`);
  if (ODD_CHARACTER.test(text)) throw bad("a URL has no spaces, backslashes or control characters");
  if (!URL.canParse(text)) throw bad("not a URL");
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw bad("only http and https");
  if (url.username || url.password) throw bad("a URL carries no user name or password");
  if (url.hostname.endsWith(".")) url.hostname = url.hostname.slice(0, -1);
  const secure = url.protocol === "https:";
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  if (port === 0) throw bad("port 0 cannot be reached");
  const host = url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname;
  if (host === "" || host.endsWith(".")) throw bad("the host name is empty");
  return {
    url,
    secure,
    host,
    port,
    path: url.pathname + url.search,
    origin: url.origin,
    literal: parse(host) !== undefined,
  };
}

/**
 * Decides which targets may be reached: public ones, and those the operator allows by an address range
 * (`10.0.0.0/8`), an address or a host name, either with a port (`receiver:8080`), or `loopback`.
 */
export type Guard = {
  /** What can be told without a resolver; throws EgressError `blocked`. */
  literal(target: Target, trusted?: boolean): void;
  /** Whether the target may be reached at this resolved address. */
  permits(target: Target, address: string, trusted?: boolean): boolean;
  /** Of this machine or network, by its name or address, or named in the configuration: no way for a proxy. */
  isLocal(target: Target): boolean;
};

/** Throws a plain Error that names the first entry it cannot read. */
export function createGuard(allow: string[]): Guard {
  const rules = allow.map(parseRule);
  const loopback = rules.some((rule) => rule.kind === "loopback");
  const anyRange = rules.some((rule) => rule.kind === "range");

  const named = ({ host, port }: Target): boolean =>
    rules.some((rule) => rule.kind === "host" && rule.host === host && (rule.port ?? port) === port);

  function permits(target: Target, address: string, trusted = false): boolean {
    const reach = reachOf(address);
    if (reach === "metadata") return false;
    if (reach === "public" || trusted || named(target)) return true;
    if (reach === "loopback" && loopback) return true;
    const parsed = parse(address);
    if (!parsed) return false;
    const plain =
      parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress() ? parsed.toIPv4Address() : parsed;
    return rules.some((rule) => rule.kind === "range" && inside(plain, [rule.range]));
  }

  return {
    permits,
    literal(target, trusted = false) {
      const { host } = target;
      if (target.literal) {
        if (!permits(target, host, trusted)) throw blocked(`${host} is not a public address`);
        return;
      }
      if (METADATA_NAMES.has(host)) throw blocked(`${host} is the metadata service of a cloud`);
      if (trusted || named(target)) return;
      if (isLocalhost(host)) {
        if (!loopback) throw blocked(`${host} is this machine`);
      } else if (!anyRange && isLocalName(host)) throw blocked(`${host} is a local name`);
    },
    isLocal: (target) =>
      named(target) ||
      (target.literal
        ? reachOf(target.host) !== "public"
        : isLocalhost(target.host) || isLocalName(target.host)),
  };
}

const isLocalhost = (host: string): boolean => host === "localhost" || host.endsWith(".localhost");
const isLocalName = (host: string): boolean =>
  !host.includes(".") || /\.(local|internal|localdomain|home\.arpa)$/.test(host);

export const blocked = (why: string) =>
  new EgressError("blocked", `${why}; the operator can allow it with allow_targets`);

type Rule =
  | { kind: "loopback" }
  | { kind: "range"; range: Range }
  | { kind: "host"; host: string; port?: number };

function parseRule(entry: string): Rule {
  if (entry === "loopback") return { kind: "loopback" };
  if (ipaddr.isValidCIDR(entry)) return { kind: "range", range: ipaddr.parseCIDR(entry) };
  const text = parse(entry)?.kind() === "ipv6" ? `[${entry}]` : entry;
  const port = /:(\d{1,5})$/.exec(text)?.[1];
  if (/[/?#@\s\\*]/.test(text) || !URL.canParse(`http://${text}`)) {
    throw new Error(`allow_targets: ${entry} is no host, host:port, address range or "loopback"`);
  }
  const { host } = targetOf(`http://${text}`);
  return port === undefined ? { kind: "host", host } : { kind: "host", host, port: Number(port) };
}
