import { prefixOf, refuseUnfit } from "../config.ts";
import { systemClock } from "../lib/clock.ts";
import { keepHeapSmall } from "../lib/heap.ts";
import { processLog } from "../lib/log.ts";
import { VERSION } from "../version.ts";
import { banner } from "./banner.ts";
import { type Call, configOf } from "./command.ts";
import { EXIT } from "./exit.ts";
import { firstRun } from "./first-run.ts";
import { selfName } from "./self.ts";

export const dev = (call: Call) => serve(call, { deployment: "development" });

/** Serves until a signal; answers the exit code. A start that fails throws. */
export async function serve(call: Call, fixed: Record<string, string> = {}): Promise<number> {
  const loaded = configOf(call, fixed);
  refuseUnfit(loaded);
  const { config, origins } = loaded;
  const { output, program } = call;
  const log = processLog({ level: config.log_level, format: config.log_format, clock: systemClock });
  const ending = untilSignal(output.words);
  // A promise nobody waited for is a bug, and no reason to cut everybody else off.
  process.on("unhandledRejection", (error) =>
    log.error("a promise failed that nobody waited for", { error }),
  );
  process.on("uncaughtException", (error) => {
    log.error("an error that nobody caught; ending", { error });
    ending.now(EXIT.crash);
  });

  const app = await program.createApp(config, { log });
  const { url, services } = await app.listen();
  const stopKeeping = keepHeapSmall();
  // Port 0 and a wildcard host are known by now; what is made from the address is made later.
  if (origins.public_url.from === "default") config.public_url = url;
  const makeKey = config.first_key === "always" || (config.first_key === "auto" && output.attended);
  const first = await firstRun(services, { makeKey });
  const folder = await program.folder();
  const schema = folder.latestSchema();
  const facts = { config, url, prefix: prefixOf(config), schema, first, self: selfName() };
  if (config.log_format !== "json") output.words(banner(facts));
  else if (first.key) output.words(`first key, shown only now: ${first.key}\n`);
  log.info("ready", { url, data: config.data, mode: config.deployment, version: VERSION, schema });

  const code = await ending.asked();
  const begun = performance.now();
  const busy = Object.values(services.runner.inFlight()).reduce((sum, jobs) => sum + jobs, 0);
  const waitsFor = busy === 0 ? "requests under way" : `${busy} jobs and requests under way`;
  output.words(
    `\nstopping: waiting for ${waitsFor}, at most ${config.drain_seconds} s; again to quit at once\n`,
  );
  const { unfinished } = await app.stop();
  stopKeeping();
  const rest = unfinished === 0 ? "" : `; ${unfinished} jobs go on at the next start`;
  output.words(`stopped after ${Math.round(performance.now() - begun)} ms${rest}\n`);
  return code;
}

// Supervisors and package runners pass one Ctrl-C on more than once.
const ONE_PRESS_MS = 300;

/** The first signal ends in order, a second one at once. A hang-up ends nothing: the terminal may go. */
function untilSignal(words: (text: string) => void) {
  let ask: (code: number) => void = () => {};
  const asked = new Promise<number>((resolve) => {
    ask = resolve;
  });
  let ready = false;
  let askedAt: number | undefined;
  const end = (code: number) => {
    // Before there is anything to end in order, nothing was promised either.
    if (!ready) process.exit(code === EXIT.ok ? EXIT.forced : code);
    if (askedAt === undefined) {
      askedAt = performance.now();
      ask(code);
    } else if (code === EXIT.crash || performance.now() - askedAt > ONE_PRESS_MS) {
      words("quitting at once; what was under way goes on at the next start\n");
      process.exit(code === EXIT.ok ? EXIT.forced : code);
    }
  };
  process.on("SIGTERM", () => end(EXIT.ok));
  process.on("SIGINT", () => end(EXIT.ok));
  process.on("SIGHUP", () => {});
  return {
    now: end,
    asked: () => {
      ready = true;
      return asked;
    },
  };
}
