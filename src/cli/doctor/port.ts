import { localUrl } from "../../config.ts";
import { ask } from "../loopback.ts";
import { type Check, fail, ok, warn } from "./check.ts";

const TIMEOUT_MS = 3_000;

export const port: Check = {
  name: "port",
  async run({ config: { host, port: wanted }, holder }) {
    if (wanted === 0 && !holder?.url) return ok("a free one, at the next start");
    const url = holder?.url ?? localUrl(host, wanted);
    const answer = await ask("GET", `${url}/health`, { timeoutMs: TIMEOUT_MS }).catch(() => undefined);
    if (holder) {
      if (!answer) return fail(`${url} does not answer, although a server runs`, "restart it");
      return answer.status === 200
        ? ok(`${url} answers`)
        : fail(`${url} is not healthy: ${answer.body.slice(0, 200)}`, "see its log");
    }
    if (answer) return warn(`${url} is taken by another program`, "choose another with --port");
    return ok(`${url} is free`);
  },
};
