import { type Check, ok, warn } from "./check.ts";

const isLocal = (host: string) =>
  host === "localhost" || host === "[::1]" || host === "::1" || host.startsWith("127.");

export const publicUrl: Check = {
  name: "public address",
  run({ config, origins, holder }) {
    const isGiven = origins["public_url"]?.from !== "default";
    const url = isGiven ? config.public_url : (holder?.url ?? config.public_url);
    const { hostname, protocol } = new URL(url);
    const other = holder?.other_host;
    const hint = "set ERRAND_PUBLIC_URL to the address that others use";
    if (other) return warn(`requests come for ${other}, and webhook addresses say ${url}`, hint);
    if (!isLocal(config.host) && isLocal(hostname)) {
      return warn(`listening on ${config.host}, and webhook addresses say ${url}`, hint);
    }
    if (!isLocal(hostname) && protocol === "http:") {
      return warn(
        `${url} is not encrypted; keys and tokens travel as they are`,
        "put a proxy with TLS in front",
      );
    }
    if (isGiven && !isLocal(hostname) && isLocal(config.host) && config.trusted_proxies.length === 0) {
      return warn(
        `${url} is served through a proxy that is not trusted: all callers look like one`,
        "set ERRAND_TRUSTED_PROXIES=127.0.0.1",
      );
    }
    return ok(isLocal(hostname) ? `${url}, this machine only` : url);
  },
};
