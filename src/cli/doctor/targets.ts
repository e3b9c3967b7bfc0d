import ipaddr from "ipaddr.js";
import { type Check, ok, warn } from "./check.ts";

const WIDE_BITS = { ipv4: 8, ipv6: 16 };

export const targets: Check = {
  name: "private targets",
  run({ config: { allow_targets, host, deployment } }) {
    if (allow_targets.length === 0) return ok("none may be reached");
    const list = allow_targets.join(", ");
    const wide = allow_targets.find((one) => {
      if (!ipaddr.isValidCIDR(one)) return false;
      const [address, bits] = ipaddr.parseCIDR(one);
      return bits <= WIDE_BITS[address.kind()];
    });
    if (wide)
      return warn(
        `${wide} opens a whole network to whoever can make a webhook`,
        "name hosts, or smaller ranges",
      );
    if (deployment === "development" && host !== "127.0.0.1" && host !== "localhost") {
      return warn(
        `${list} may be reached, and the server listens on ${host}`,
        "use errand serve outside your machine",
      );
    }
    return ok(`${list} may be reached`);
  },
};
