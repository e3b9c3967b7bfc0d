import { localUrl } from "../config.ts";
import { type Call, configOf } from "./command.ts";
import { EXIT, ExitError } from "./exit.ts";
import { ask } from "./loopback.ts";

const TIMEOUT_MS = 5_000;

/** Silent and 0 when the server of this configuration is healthy; else 1. For container images without curl. */
export async function healthcheck(call: Call): Promise<void> {
  const { config } = configOf(call);
  const holder = (await call.program.folder()).holder(config.data);
  const url = `${config.port === 0 && holder?.url ? holder.url : localUrl(config.host, config.port)}/health`;
  const answer = await ask("GET", url, { timeoutMs: TIMEOUT_MS }).catch((error: Error) => error);
  if (answer instanceof Error) throw new ExitError(EXIT.failed, `${url} does not answer: ${answer.message}`);
  if (answer.status !== 200)
    throw new ExitError(EXIT.failed, `${url} answers ${answer.status} ${answer.body.slice(0, 200)}`);
}
