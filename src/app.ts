import { mkdirSync } from "node:fs";
import type { Config } from "./config.ts";
import { createAccessLog } from "./http/access-log.ts";
import type { Gate, ServiceState } from "./http/gate.ts";
import { createHostWatch } from "./http/host-watch.ts";
import { createLateGate } from "./http/late-gate.ts";
import { limiterOf } from "./http/limiter.ts";
import { type Listening, listen } from "./http/listen.ts";
import { createMetrics, type Metrics, processGauges } from "./http/metrics.ts";
import { notYet } from "./http/not-yet.ts";
import { knock, listenForKnocks } from "./jobs/knock.ts";
import { startChores } from "./jobs/maintenance.ts";
import { type Clock, scaledClock, systemClock } from "./lib/clock.ts";
import { type Logger, processLog } from "./lib/log.ts";
import type { Services } from "./services.ts";
import type { FolderLock } from "./storage/folder.ts";
import { lockFolder } from "./storage/sqlite/lock.ts";
import type { Step } from "./storage/sqlite/migrate.ts";
import { openLocalStorage, openStorage } from "./storage/sqlite/open.ts";
import { knockPath } from "./storage/sqlite/paths.ts";
import { VERSION } from "./version.ts";

export type AppOptions = { clock?: Clock; log?: Logger; lost?: (reason: string) => void };

export type App = {
  /**
   * Takes the port, then the data folder, brings the schema up to date, takes up what an earlier life left,
   * and only then answers anything but 503. Throws ListenError, FolderLocked, NewerDatabase, VaultError.
   */
  listen(): Promise<{ url: string; services: Services }>;
  /** Refuses new requests, lets what runs end, at most `drain_seconds`, and lets the folder go. */
  stop(): Promise<{ unfinished: number }>;
};

const PROBE_EVERY_MS = 1_000;
// Long enough for whoever waits for the start to ask, short enough that few others come before.
const ROUTES_AFTER_MS = 50;

export function createApp(config: Config, options: AppOptions = {}): App {
  const real = options.clock ?? systemClock;
  const clock = config.time_scale === 1 ? real : scaledClock(config.time_scale, real);
  const log = options.log ?? processLog({ level: config.log_level, format: config.log_format, clock: real });
  const metrics = createMetrics();
  let state: ServiceState = "ready";
  let gate: Gate = notYet(log);
  let listening: Listening | undefined;
  let lock: FolderLock | undefined;
  let services: Services | undefined;
  let closeStorage: (() => Promise<void>) | undefined;
  const stops: (() => void)[] = [];

  function lost(reason: string): void {
    fatal("storage is lost; ending, so that the next start can recover", { reason });
  }

  function fatal(message: string, why: Record<string, unknown>): void {
    log.error(message, why);
    log.flush();
    (options.lost ?? (() => process.exit(EXIT_CRASH)))(message);
  }

  async function open(): Promise<{ services: Services; opened: Promise<void> }> {
    mkdirSync(config.data, { recursive: true, mode: 0o700 });
    lock = lockFolder(config.data, { version: VERSION, now: clock.now(), pace: clock.pace });
    const migrating = (step: Step) => {
      log.info("the schema of the database is brought up to date", step);
      gate = notYet(log, step);
    };
    const [storage, { createServices }] = await Promise.all([
      openStorage({ folder: config.data, now: clock.now(), lost, migrating }),
      import("./services.ts"), // read while the thread that writes gets ready
    ]);
    const { opened } = storage;
    closeStorage = () => storage.close();
    return { services: await createServices({ config, storage, clock, log, runsJobs: true }), opened };
  }

  function noticeHost(host: string): void {
    const { public_url } = config;
    log.warn("requests come for another host than public_url says; addresses are made of public_url", {
      host,
      public_url,
    });
    lock?.notice(host);
  }

  /** Lets everybody in. */
  function openGate(running: Services): void {
    const late = createLateGate({
      common: {
        authenticate: running.keys.authenticate,
        log,
        metrics,
        ...limitersOf(config, real),
        trustedProxies: config.trusted_proxies,
        maxBodyBytes: config.max_body_bytes,
        ...(config.access_log ? { accessLog: createAccessLog(log) } : {}),
        hosts: createHostWatch({ publicUrl: () => config.public_url, noticed: noticeHost }),
        state: () => state,
        clock,
      },
      checks: [() => (running.probe.fault() ? "storage refuses writes" : undefined)],
      async routes(checks) {
        const { createServer } = await import("./server.ts");
        return createServer(config, running, { checks, metrics, log });
      },
    });
    gate = late.gate;
    const complete = () =>
      late.complete().catch((error) => fatal("the routes cannot be made; ending", { error }));
    stops.push(real.after(ROUTES_AFTER_MS, complete));
  }

  function attend(running: Services): void {
    processGauges(metrics, real.now(), real.now);
    serviceGauges(metrics, running);
    stops.push(
      startChores(running.chores, clock, (chore, error) => log.error("a chore failed", { chore, error })),
    );
    stops.push(probeWhileFaulty(running, real, log));
  }

  async function close(): Promise<void> {
    for (const stop of stops) stop();
    services?.egress.close();
    services?.publicEgress.close();
    await closeStorage?.();
    lock?.release();
    log.flush();
  }

  return {
    async listen() {
      listening = listen({
        gate: (request, server) => gate(request, server),
        hostname: config.host,
        port: config.port,
        log,
      });
      try {
        const { services: all, opened } = await open();
        services = all;
        await opened;
        await services.alerts.load();
        const { rest, ...recovered } = await services.runner.start();
        const interrupted = await services.turns.recover();
        let { dead } = recovered;
        metrics.gauge("jobs_given_up", "Jobs given up at this start, after three crashes.", () => dead);
        if (recovered.recovered + recovered.dead + interrupted > 0) {
          log.info("took up what was under way at the last stop", { ...recovered, interrupted });
        }
        void rest?.then((others) => {
          dead += others.dead;
          log.info("took up the rest of it", others);
        });
        const { runner, turns } = services;
        const heard = () => {
          runner.lookAround();
          turns.haltOrphans().catch((error) => log.error("looking for orphans failed", { error }));
        };
        stops.push(listenForKnocks(knockPath(config.data), heard));
        attend(services);
        openGate(services);
      } catch (error) {
        await listening.stop(true);
        await close();
        throw error;
      }
      const url = urlOf(config, listening);
      lock?.announce(url);
      return { url, services };
    },

    async stop() {
      state = "draining";
      const patience = config.drain_seconds * 1_000;
      const late = after(real, patience); // one patience for all: begun before the first wait
      const requests = listening?.stop();
      const [jobs] = await Promise.all([
        services?.runner.stop(patience),
        services?.turns.stop(patience),
        services?.door.stop(patience),
      ]);
      services?.waiters.close();
      const inTime = await Promise.race([requests?.then(() => true), late]);
      if (!inTime) await listening?.stop(true);
      await close();
      return { unfinished: jobs?.unfinished ?? 0 };
    },
  };
}

/** `runsJobs`: the caller holds the folder's lock, and what it starts runs in this process. */
export type LocalOptions = AppOptions & { runsJobs?: boolean };

/**
 * The same services on the same data folder without a server: for the command line. Without a runner too,
 * unless it is asked for: then a running server takes up what is put down.
 */
export async function openLocal(
  config: Config,
  options: LocalOptions = {},
): Promise<{ services: Services; close(): Promise<void> }> {
  const clock = options.clock ?? systemClock;
  const log = options.log ?? processLog({ level: "warn", format: config.log_format, clock });
  mkdirSync(config.data, { recursive: true, mode: 0o700 });
  const { createServices } = await import("./services.ts");
  const storage = openLocalStorage({ folder: config.data, now: clock.now() });
  try {
    const services = await createServices({
      config,
      storage,
      clock,
      log,
      runsJobs: options.runsJobs ?? false,
      handedOver: () => knock(knockPath(config.data), systemClock.now()),
    });
    return {
      services,
      async close() {
        services.egress.close();
        services.publicEgress.close();
        await storage.close();
      },
    };
  } catch (error) {
    await storage.close();
    throw error;
  }
}

const EXIT_CRASH = 70;

const after = (clock: Clock, ms: number): Promise<false> =>
  new Promise((resolve) => clock.after(ms, () => resolve(false)));

function urlOf({ host }: Config, { port }: Listening): string {
  const name = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host;
  return `http://${name}:${port}`;
}

const limitersOf = (config: Config, clock: Clock) => ({
  limiter: limiterOf("ip", config.rate_limit, clock),
  anonymousLimiter: limiterOf("anonymous", config.anonymous_rate_limit, clock),
});

/** A full or failing disk heals unseen when nobody writes: so something writes until it does. */
function probeWhileFaulty({ probe }: Services, clock: Clock, log: Logger): () => void {
  let stopped = false;
  let wasFaulty = false;
  const look = async () => {
    const fault = probe.fault();
    if (fault && !wasFaulty) log.error("storage refuses writes", { fault });
    wasFaulty = fault !== undefined;
    if (fault) {
      await probe.write(clock.now()).then(
        () => log.info("storage accepts writes again"),
        () => {},
      );
    }
    if (!stopped) cancel = clock.after(PROBE_EVERY_MS, look);
  };
  let cancel = clock.after(PROBE_EVERY_MS, look);
  return () => {
    stopped = true;
    cancel();
  };
}

function serviceGauges(metrics: Metrics, { runner, jobs, probe, alerts }: Services): void {
  metrics.gauge("webhook_alerts", "Alerts on record, by what they tell and what became of them.", async () =>
    (await alerts.counts()).map(({ kind, state, count }) => ({ labels: { kind, state }, value: count })),
  );
  metrics.gauge("webhooks_in_trouble", "Webhooks that gave up a delivery and took none since.", () =>
    alerts.troubledCount(),
  );
  metrics.gauge("jobs", "Jobs on record, by lane and state.", async () =>
    (await jobs.counts()).map(({ lane, state, count }) => ({ labels: { lane, state }, value: count })),
  );
  metrics.gauge("jobs_in_flight", "Jobs this process works at the moment, by lane.", () =>
    Object.entries(runner.inFlight()).map(([lane, value]) => ({ labels: { lane }, value })),
  );
  metrics.gauge("jobs_queued", "Jobs without a row that wait in memory for a slot, by lane.", () =>
    Object.entries(runner.queued()).map(([lane, value]) => ({ labels: { lane }, value })),
  );
  metrics.gauge("storage_ok", "1 when the last write succeeded.", () => (probe.fault() ? 0 : 1));
}
