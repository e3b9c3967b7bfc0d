import ipaddr from "ipaddr.js";
import type { AnyServer } from "./context.ts";

/** `::ffff:1.2.3.4` as `1.2.3.4`, IPv6 in its one short form; undefined for anything that is no address. */
export function canonicalAddress(text: string): string | undefined {
  if (!text.includes(":")) return ipaddr.IPv4.isValidFourPartDecimal(text) ? text : undefined;
  const zone = text.indexOf("%");
  const bare = zone === -1 ? text : text.slice(0, zone);
  if (!ipaddr.IPv6.isValid(bare)) return undefined;
  return ipaddr.process(bare).toString();
}

/** What one client is counted under: its IPv4 address, or the /64 that one IPv6 subscriber holds. */
export function limiterKey(address: string): string {
  if (!address.includes(":")) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === "ipv4") return parsed.toString();
  return `${(parsed as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
}

/**
 * Makes the reader of client addresses. X-Forwarded-For counts only when the peer is a trusted proxy, and
 * then from the right: the first address that is no trusted proxy is the client, whatever it wrote left of
 * that. A part that is no address ends the walk at the last good one.
 * Throws at start-up on a range that is neither an address nor a CIDR.
 */
export function clientAddress(trustedProxies: readonly string[]) {
  const ranges = trustedProxies.map(parseRange);
  const trusted = (address: string): boolean => {
    const parsed = ipaddr.parse(address);
    return ranges.some(([network, bits]) => parsed.kind() === network.kind() && parsed.match(network, bits));
  };

  return (request: Request, server: AnyServer | undefined): string => {
    const peer = server?.requestIP(request)?.address;
    let at = peer === undefined ? undefined : peer.includes(":") ? canonicalAddress(peer) : peer;
    if (at === undefined) return "";
    if (ranges.length === 0 || !trusted(at)) return at;
    const forwarded = request.headers.get("x-forwarded-for");
    if (forwarded === null) return at;
    const hops = forwarded.split(",");
    for (let i = hops.length - 1; i >= 0; i--) {
      const hop = canonicalAddress(withoutPort(hops[i]!.trim()));
      if (hop === undefined) return at;
      at = hop;
      if (!trusted(at)) return at;
    }
    return at;
  };
}

function parseRange(text: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  const slash = text.indexOf("/");
  const canonical = canonicalAddress(slash === -1 ? text : text.slice(0, slash));
  if (canonical === undefined || (slash !== -1 && !ipaddr.isValidCIDR(text))) {
    throw new Error(`trusted_proxies: "${text}" is neither an address nor a range such as 10.0.0.0/8`);
  }
  if (slash !== -1) return ipaddr.parseCIDR(text);
  const address = ipaddr.parse(canonical);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

// "1.2.3.4:5678" and "[::1]:5678", as some proxies write.
function withoutPort(text: string): string {
  if (text.startsWith("[")) return text.slice(1, text.indexOf("]"));
  const colon = text.indexOf(":");
  return colon !== -1 && colon === text.lastIndexOf(":") ? text.slice(0, colon) : text;
}
