import { createAsk } from "./agents/ask.ts";
import { createAttachments } from "./agents/attachments.ts";
import { completeIdle, haltOrphans } from "./agents/chores.ts";
import { createConversations } from "./agents/conversations.ts";
import { tellingEnds, tellingRemovals } from "./agents/ended.ts";
import { createAgents } from "./agents/service.ts";
import { createTurns } from "./agents/turns.ts";
import { createAlerts } from "./alerts/service.ts";
import { type Config, prefixOf } from "./config.ts";
import { createConnections } from "./connections/service.ts";
import { forgetResponses } from "./door/chores.ts";
import { createDirect } from "./door/direct.ts";
import { createResponses } from "./door/responses.ts";
import { createDoor } from "./door/service.ts";
import { createEgress } from "./egress/egress.ts";
import { DELIVERY_JOB } from "./events/kinds.ts";
import { createEventRecords } from "./events/records.ts";
import { createEvents } from "./events/service.ts";
import { createExecutionLists } from "./executions/lists.ts";
import { createExecutions } from "./executions/service.ts";
import { createWaiters } from "./executions/waiters.ts";
import { createAdmission } from "./hooks/admission.ts";
import { createForms } from "./hooks/forms.ts";
import { forgetClaims } from "./hooks/jobs.ts";
import { createResults } from "./hooks/results.ts";
import { createHooks } from "./hooks/service.ts";
import { createHookTokens } from "./hooks/tokens.ts";
import { limiterOf } from "./http/limiter.ts";
import { CAPACITY, NO_CAPACITY } from "./jobs/lane.ts";
import type { Chore } from "./jobs/maintenance.ts";
import type { NewJob } from "./jobs/placement.ts";
import { createRunner } from "./jobs/runner.ts";
import { createKeys } from "./keys/service.ts";
import { type Clock, realTime } from "./lib/clock.ts";
import type { Logger } from "./lib/log.ts";
import { openVault, proveVault } from "./lib/vault.ts";
import { createMail } from "./mail/mail.ts";
import { createModels } from "./models/index.ts";
import { forgetHistory } from "./retention/jobs.ts";
import { createRetention } from "./retention/service.ts";
import { sqliteAgents } from "./storage/sqlite/agents.ts";
import { sqliteAlerts } from "./storage/sqlite/alerts.ts";
import { sqliteAttachments } from "./storage/sqlite/attachments.ts";
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

export type World = {
  config: Config;
  storage: Storage;
  clock: Clock;
  log: Logger;
  runsJobs: boolean;
  handedOver?: () => void;
};

/** Every service over one storage; the one place where features meet, and with app.ts the only one to name sqlite. */
export async function createServices({ config, storage, clock, log, runsJobs, handedOver }: World) {
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
    handedOver,
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

  const agents = createAgents({
    store: sqliteAgents(storage),
    workflows,
    connections,
    clock,
    async halt(id) {
      await turns.haltAgent(id);
      handedOver?.();
    },
  });
  const told = { ended: waiters.ended, due: runner.wake };
  const conversationStore = sqliteConversations(storage);
  const conversationRecords = tellingRemovals(sqliteConversationRecords(storage), told);
  const attachments = createAttachments({
    store: sqliteAttachments(storage),
    agents,
    egress,
    publicEgress,
    clock,
  });
  const turns = createTurns({
    store: tellingEnds(conversationStore, told),
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
    removed: handedOver,
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
    haltOrphans({ turns }),
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
