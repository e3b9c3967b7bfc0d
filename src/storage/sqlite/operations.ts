import { agentWrites } from "./agents.ts";
import { alertWrites } from "./alerts.ts";
import { attachmentWrites } from "./attachments.ts";
import { connectionWrites } from "./connections.ts";
import { conversationRecordWrites } from "./conversation-records.ts";
import { conversationWrites } from "./conversations.ts";
import { deliveryWrites } from "./deliveries.ts";
import { executionWrites } from "./executions.ts";
import { hookWrites } from "./hooks.ts";
import { idempotencyWrites } from "./idempotency.ts";
import { jobWrites } from "./jobs.ts";
import { keyWrites } from "./keys.ts";
import { probeWrites } from "./probe.ts";
import { responseWrites } from "./responses.ts";
import { retentionWrites } from "./retention.ts";
import { subscriptionWrites } from "./subscriptions.ts";
import { triggerWrites } from "./triggers.ts";
import { turnStepWrites } from "./turn-steps.ts";
import { vaultWrites } from "./vault.ts";
import { workflowWrites } from "./workflows.ts";
import { workspaceWrites } from "./workspaces.ts";

/** Every write there is, by name: what the writer can be asked to do. One line per feature. */
export const operations = {
  ...agentWrites,
  ...alertWrites,
  ...connectionWrites,
  ...attachmentWrites,
  ...conversationRecordWrites,
  ...conversationWrites,
  ...deliveryWrites,
  ...executionWrites,
  ...hookWrites,
  ...idempotencyWrites,
  ...jobWrites,
  ...keyWrites,
  ...probeWrites,
  ...responseWrites,
  ...retentionWrites,
  ...subscriptionWrites,
  ...triggerWrites,
  ...turnStepWrites,
  ...vaultWrites,
  ...workflowWrites,
  ...workspaceWrites,
};
