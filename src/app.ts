import { mkdirSync } from "node:fs";
import { createAsk } from "./agents/ask.ts";
import { createAttachments } from "./agents/attachments.ts";
import { completeIdle } from "./agents/chores.ts";
import { createConversations } from "./agents/conversations.ts";
import { tellingEnds } from "./agents/ended.ts";
import { createAgents } from "./agents/service.ts";
import { createTurns } from "./agents/turns.ts";
import { createAlerts } from "./alerts/service.ts";
import type { Config } from "./config.ts";
import { createConnections } from "./connections/service.ts";
import { forgetResponses } from "./door/chores.ts";
import { createDirect } from "./door/direct.ts";
import { createResponses } from "./door/responses.ts";
import { createDoor } from "./door/service.ts";
import { createEgress } from "./egress/egress.ts";
import { createEventRecords } from "./events/records.ts";
import { createEvents, DELIVERY_JOB } from "./events/service.ts";
import { createExecutionLists } from "./executions/lists.ts";
import { createExecutions } from "./executions/service.ts";
import { createWaiters } from "./executions/waiters.ts";
import { createAdmission } from "./hooks/admission.ts";
import { createForms } from "./hooks/forms.ts";
import { forgetClaims } from "./hooks/jobs.ts";
import { createResults } from "./hooks/results.ts";
import { createHooks } from "./hooks/service.ts";
import { createHookTokens } from "./hooks/tokens.ts";
import { createAccessLog } from "./http/access-log.ts";
import { isHookPath, pathOf } from "./http/context.ts";
import { errorResponse } from "./http/errors.ts";
import { createGate, type Gate, type ServiceState } from "./http/gate.ts";
import { createHostWatch } from "./http/host-watch.ts";
import { createLimiter } from "./http/limiter.ts";
import { type Listening, listen } from "./http/listen.ts";
import { createMetrics, type Metrics, processGauges } from "./http/metrics.ts";
import { type Chore, startChores } from "./jobs/maintenance.ts";
import { CAPACITY, createRunner, type NewJob, NO_CAPACITY } from "./jobs/runner.ts";
import { createKeys } from "./keys/service.ts";
import { type Clock, realTime, scaledClock, systemClock } from "./lib/clock.ts";
import { unavailable } from "./lib/errors.ts";
import { newId } from "./lib/ids.ts";
import { type Logger, processLog } from "./lib/log.ts";
import { openVault, proveVault } from "./lib/vault.ts";
import { createMail } from "./mail/mail.ts";
import { createModels } from "./models/index.ts";
import { forgetHistory } from "./retention/jobs.ts";
import { createRetention } from "./retention/service.ts";
import { createServer, prefixOf } from "./server.ts";
import type { FolderLock } from "./storage/folder.ts";
import { sqliteAgents } from "./storage/sqlite/agents.ts";
import { sqliteAlerts } from "./storage/sqlite/alerts.ts";
import { sqliteAttachments } from "./storage/sqlite/attachments.ts";
import { backupBeforeMigration } from "./storage/sqlite/backup.ts";
import { sqliteConnections } from "./storage/sqlite/connections.ts";
import { sqliteConversationRecords } from "./storage/sqlite/conversation-records.ts";
import { sqliteConversations } from "./storage/sqlite/conversations.ts";
import { sqliteDeliveries } from "./storage/sqlite/deliveries.ts";
import { sqliteEventRecords } from "./storage/sqlite/event-records.ts";
import { sqliteEvents } from "./storage/sqlite/events.ts";
import { sqliteExecutionLists } from "./storage/sqlite/execution-lists.ts";
import { sqliteExecutions } from "./storage/sqlite/executions.ts";
import { sqliteHooks } from "./storage/sqlite/hooks.ts";
import { sqliteIdempotency } from "./storage/sqlite/idempotency.ts";
import { sqliteJobs } from "./storage/sqlite/jobs.ts";
import { sqliteKeys } from "./storage/sqlite/keys.ts";
import { lockFolder } from "./storage/sqlite/lock.ts";
import { openLocalStorage, openStorage } from "./storage/sqlite/open.ts";
import { databasePath } from "./storage/sqlite/paths.ts";
import { sqliteProbe } from "./storage/sqlite/probe.ts";
import { sqliteResponses } from "./storage/sqlite/responses.ts";
import { sqliteRetention } from "./storage/sqlite/retention.ts";
import type { Storage } from "./storage/sqlite/storage.ts";
import { sqliteSubscriptions } from "./storage/sqlite/subscriptions.ts";
import { sqliteTriggers } from "./storage/sqlite/triggers.ts";
import { sqliteTurnSteps } from "./storage/sqlite/turn-steps.ts";
import { sqliteVault } from "./storage/sqlite/vault.ts";
import { sqliteWorkflows } from "./storage/sqlite/workflows.ts";
import { sqliteWorkspaces } from "./storage/sqlite/workspaces.ts";
import { createAuthConfigs } from "./triggers/auth-config.ts";
import { createTriggerCalls } from "./triggers/calls.ts";
import { createRecords } from "./triggers/records.ts";
import { createTriggers } from "./triggers/service.ts";
import { VERSION } from "./version.ts";
import { forgetAlerts, forgetFigures } from "./webhooks/chores.ts";
import { createDeliveries } from "./webhooks/deliveries.ts";
import { createDryRun } from "./webhooks/dry-run.ts";
import { deliveryAttempt } from "./webhooks/jobs.ts";
import { releaseDeliveries } from "./webhooks/release.ts";
import { createReplays } from "./webhooks/replay.ts";
import { createWebhooks } from "./webhooks/service.ts";
import { createTestSend } from "./webhooks/test-send.ts";
import { createWorkflows, type WorkflowTarget } from "./workflows/service.ts";
import { createWorkspaces } from "./workspaces/service.ts";

export type Services = Awaited<ReturnType<typeof createServices>>;

type World = { config: Config; storage: Storage; clock: Clock; log: Logger; runsJobs: boolean };

/** Every service over one storage; the one place where features meet. */
async function createServices({ config, storage, clock, log, runsJobs }: World) {
  const real = realTime(clock);
  const vault = openVault(config);
  await proveVault(vault, sqliteVault(storage));
  const way = { egress_ips: config.egress_ips, proxy: config.egress_proxy };
  const egress = createEgress({ ...way, allow: config.allow_targets });
  const publicEgress = createEgress(way);
  const report = (message: string, fields: Record<string, unknown>) => log.error(message, fields);
  const jobs = sqliteJobs(storage);
  const runner = createRunner({
    store: jobs,
    clock,
    report,
    capacity: runsJobs ? CAPACITY : NO_CAPACITY,
  });

  const workspaces = createWorkspaces({ store: sqliteWorkspaces(storage), clock });
  const keys = createKeys({ store: sqliteKeys(storage), workspaces, clock });
  const mail = createMail({
    ...config,
    domain: new URL(config.public_url).hostname,
    egress,
    ownerOf: async (id) => (await workspaces.get(id)).owner_email ?? undefined,
  });
  const eventRecords = createEventRecords({ store: sqliteEventRecords(storage) });
  const events = createEvents({ store: sqliteEvents(storage), runner });
  const sender = { egress, vault, clock, version: VERSION };
  const webhooks = createWebhooks({ store: sqliteSubscriptions(storage), egress, vault, clock, runner });
  const { inScope } = webhooks;
  const deliveryStore = sqliteDeliveries(storage);
  const deliveries = createDeliveries({ store: deliveryStore, inScope, clock });
  const replays = createReplays({ store: deliveryStore, inScope, runner, clock });
  const dryRun = createDryRun({ inScope, clock });
  const testSend = createTestSend({ ...sender, inScope });
  const alertStore = sqliteAlerts(storage);
  const alerts = createAlerts({ store: alertStore, mail, runner, clock, log, inScope });
  const place = (job: NewJob) => runner.place(DELIVERY_JOB, job);
  const look = () => runner.look(DELIVERY_JOB);
  runner.register(deliveryAttempt({ ...sender, store: deliveryStore, alerts, place, look }));
  runner.register(releaseDeliveries({ store: deliveryStore, runner }));

  const models = createModels({ config, egress, clock: real });
  const connections = createConnections({ store: sqliteConnections(storage), vault, clock });
  const workflows = createWorkflows({ store: sqliteWorkflows(storage), connections, clock });
  const waiters = createWaiters(real);
  const executionStore = sqliteExecutions(storage);
  const engine = {
    store: executionStore,
    events,
    runner,
    clock,
    services: {
      egress,
      models,
      mail,
      connections,
      clock,
      // Agents are made after the engine that their tools run on.
      askAgent: (question: Parameters<typeof ask>[0]) => ask(question),
    },
    report,
  };
  const executions = createExecutions({
    ...engine,
    vault,
    baseUrl: () => config.public_url,
    waiters,
    workflows,
  });
  runner.register(executions.job);

  const executionLists = createExecutionLists({
    store: sqliteExecutionLists(storage),
    target: workflows.target,
  });

  const agents = createAgents({ store: sqliteAgents(storage), workflows, connections, clock });
  const conversationStore = sqliteConversations(storage);
  const conversationRecords = sqliteConversationRecords(storage);
  const attachments = createAttachments({
    store: sqliteAttachments(storage),
    agents,
    egress,
    publicEgress,
    clock,
  });
  const turns = createTurns({
    store: tellingEnds(conversationStore, waiters.ended),
    records: conversationRecords,
    attachments,
    steps: sqliteTurnSteps(storage),
    workflows,
    executions,
    agents,
    models,
    connections,
    events,
    runner,
    clock,
    report,
  });
  runner.register(turns.job);
  const ask = createAsk({ agents, turns, waiters, clock });
  const conversations = createConversations({
    store: conversationStore,
    records: conversationRecords,
    agents,
    turns,
    events,
    runner,
    clock,
  });

  const responseStore = sqliteResponses(storage);
  const responses = createResponses({ store: responseStore, clock });
  const door = createDoor({
    agents,
    turns,
    attachments,
    models,
    direct: createDirect({ agents, workflows, executions, models, connections, clock, report }),
    clock,
  });

  const hookStore = sqliteHooks(storage);
  const hookTokens = createHookTokens({
    store: hookStore,
    agents,
    workflows,
    clock,
    baseUrl: () => config.public_url,
  });
  const admission = createAdmission({
    store: hookStore,
    clock,
    limiter: limiterOf("hook", config.hook_rate_limit, real),
  });
  const incoming = {
    admission,
    results: createResults({ turns, executions, waiters }),
    agents,
    workflows,
    turns,
    executions,
    inputSchema: async (workflow: WorkflowTarget) =>
      (await workflows.definition(workflow.definition_hash)).input_schema,
    clock,
  };
  const hooks = createHooks(incoming);
  const forms = createForms(incoming);
  const triggerStore = sqliteTriggers(storage);
  const configs = createAuthConfigs({ vault, clock });
  const triggers = createTriggers({
    store: triggerStore,
    agents,
    configs,
    clock,
    baseUrl: () => `${config.public_url}${prefixOf(config)}`,
  });
  const triggerCalls = createTriggerCalls({
    store: triggerStore,
    triggers,
    configs,
    records: createRecords({ store: triggerStore, clock }),
    agents,
    turns,
    admission,
    clock,
  });
  const probe = sqliteProbe(storage);
  const retention = createRetention({ store: sqliteRetention(storage), clock: real });
  const chores: Chore[] = [
    forgetHistory({ retention, days: config.retention_days, clock: real }),
    forgetClaims({ store: sqliteIdempotency(storage), clock }),
    forgetFigures({ store: deliveryStore, clock }),
    forgetAlerts({ store: alertStore, clock }),
    forgetResponses({ store: responseStore, clock }),
    completeIdle({ conversations }),
  ];
  return {
    config,
    clock,
    log,
    egress,
    publicEgress,
    jobs,
    runner,
    workspaces,
    keys,
    connections,
    eventRecords,
    webhooks,
    deliveries,
    replays,
    alerts,
    dryRun,
    testSend,
    mail,
    models,
    workflows,
    executions,
    executionLists,
    waiters,
    agents,
    attachments,
    conversations,
    turns,
    door,
    responses,
    hookTokens,
    hooks,
    forms,
    triggers,
    triggerCalls,
    probe,
    retention,
    chores,
  };
}

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

export function createApp(config: Config, options: AppOptions = {}): App {
  const real = options.clock ?? systemClock;
  const clock = config.time_scale === 1 ? real : scaledClock(config.time_scale, real);
  const log = options.log ?? processLog({ level: config.log_level, format: config.log_format, clock: real });
  const metrics = createMetrics();
  let state: ServiceState = "ready";
  let gate: Gate = async (request) => notYet(request, log);
  let listening: Listening | undefined;
  let lock: FolderLock | undefined;
  let services: Services | undefined;
  let closeStorage: (() => Promise<void>) | undefined;
  const stops: (() => void)[] = [];

  function lost(reason: string): void {
    log.error("storage is lost; ending, so that the next start can recover", { reason });
    log.flush();
    (options.lost ?? (() => process.exit(EXIT_CRASH)))(reason);
  }

  async function open(): Promise<Services> {
    mkdirSync(config.data, { recursive: true, mode: 0o700 });
    lock = lockFolder(config.data, { version: VERSION, now: clock.now() });
    const storage = await openStorage({
      file: databasePath(config.data),
      now: clock.now(),
      lost,
      beforeMigration: (schema) => backupBeforeMigration(config.data, schema, clock.now()),
    });
    closeStorage = () => storage.close();
    return createServices({ config, storage, clock, log, runsJobs: true });
  }

  function noticeHost(host: string): void {
    const { public_url } = config;
    log.warn("requests come for another host than public_url says; addresses are made of public_url", {
      host,
      public_url,
    });
    lock?.notice(host);
  }

  function serve(running: Services): void {
    gate = createGate({
      ...createServer(config, running, { metrics, log }),
      authenticate: running.keys.authenticate,
      log,
      metrics,
      ...limitersOf(config, real),
      trustedProxies: config.trusted_proxies,
      maxBodyBytes: config.max_body_bytes,
      ...(config.access_log ? { accessLog: createAccessLog(log) } : {}),
      hosts: createHostWatch({ publicUrl: () => config.public_url, noticed: noticeHost }),
      state: () => state,
    });
    processGauges(metrics, real.now(), real.now);
    serviceGauges(metrics, running);
    stops.push(
      startChores(running.chores, real, (chore, error) => log.error("a chore failed", { chore, error })),
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
        services = await open();
        await services.alerts.load();
        const recovered = await services.runner.start();
        const interrupted = await services.turns.recover();
        const { dead } = recovered;
        metrics.gauge("jobs_given_up", "Jobs given up at this start, after three crashes.", () => dead);
        if (recovered.recovered + recovered.dead + interrupted > 0) {
          log.info("took up what was under way at the last stop", { ...recovered, interrupted });
        }
        serve(services);
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
  const storage = openLocalStorage({
    file: databasePath(config.data),
    now: clock.now(),
    beforeMigration: (schema) => backupBeforeMigration(config.data, schema, clock.now()),
  });
  try {
    const services = await createServices({
      config,
      storage,
      clock,
      log,
      runsJobs: options.runsJobs ?? false,
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

/** While there are no services yet, and so no gate, not even for /health. */
function notYet({ url }: Request, log: Logger): Response {
  const place = { request_id: newId(), hook: isHookPath(pathOf(url)) };
  const answer = errorResponse(unavailable("The service is starting."), place, log);
  answer.headers.set("x-request-id", place.request_id);
  return answer;
}

const after = (clock: Clock, ms: number): Promise<false> =>
  new Promise((resolve) => clock.after(ms, () => resolve(false)));

function urlOf({ host }: Config, { port }: Listening): string {
  const name = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host;
  return `http://${name}:${port}`;
}

const limiterOf = (name: string, quota: number, clock: Clock) =>
  quota > 0 ? createLimiter({ name, quota, clock }) : undefined;

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
  metrics.gauge("storage_ok", "1 when the last write succeeded.", () => (probe.fault() ? 0 : 1));
}
