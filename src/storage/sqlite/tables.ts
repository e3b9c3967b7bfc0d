import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { JsonObject } from "../../lib/json.ts";
import type { WorkflowSettings } from "../../workflows/schema.ts";

/**
 * The tables that drizzle's builder works on; the hot ones (jobs, executions, steps, deliveries,
 * attempts, idempotency) are reached by prepared SQL only. A test holds this page against the migrations.
 */

const ms = (name: string) => integer(name, { mode: "number" });
const flag = (name: string) => integer(name, { mode: "boolean" });
const object = (name: string) => text(name, { mode: "json" }).$type<JsonObject>();
const strings = (name: string) => text(name, { mode: "json" }).$type<string[]>();

export const workspaces = sqliteTable("workspaces", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  owner_email: text("owner_email"),
  created_at: ms("created_at").notNull(),
});

export const projects = sqliteTable("projects", {
  id: text("id").primaryKey(),
  workspace_id: text("workspace_id").notNull(),
  name: text("name").notNull(),
  created_at: ms("created_at").notNull(),
});

export const keys = sqliteTable("keys", {
  id: text("id").primaryKey(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  name: text("name").notNull(),
  public_id: text("public_id").notNull(),
  secret_hash: text("secret_hash").notNull(),
  last_four: text("last_four").notNull(),
  created_at: ms("created_at").notNull(),
  expires_at: ms("expires_at"),
  revoked_at: ms("revoked_at"),
  last_used_at: ms("last_used_at"),
});

export const agents = sqliteTable("agents", {
  id: text("id").primaryKey(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  name: text("name").notNull(),
  description: text("description").notNull(),
  visibility: text("visibility").$type<"private" | "public">().notNull(),
  settings: object("settings").notNull(),
  version: integer("version").notNull(),
  created_at: ms("created_at").notNull(),
  updated_at: ms("updated_at"),
  recent_turns: integer("recent_turns").notNull().default(0),
  recent_turn_ms: integer("recent_turn_ms").notNull().default(0),
});

export const connections = sqliteTable("connections", {
  id: text("id").primaryKey(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  name: text("name").notNull(),
  type: text("type").notNull(),
  settings: object("settings").notNull(),
  secret: text("secret").notNull(),
  created_at: ms("created_at").notNull(),
  updated_at: ms("updated_at"),
});

export const conversations = sqliteTable("conversations", {
  id: text("id").primaryKey(),
  agent_id: text("agent_id").notNull(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  owner: text("owner").notNull(),
  client_id: text("client_id").notNull(),
  user_id: text("user_id"),
  title: text("title"),
  status: text("status").notNull(),
  metadata: object("metadata").notNull(),
  message_count: integer("message_count").notNull(),
  started_at: ms("started_at").notNull(),
  updated_at: ms("updated_at").notNull(),
  completed_at: ms("completed_at"),
  suggested_replies: strings("suggested_replies").notNull(),
  tags: strings("tags").notNull(),
  ended_as: text("ended_as"),
  resolution: object("resolution"),
  satisfaction_score: real("satisfaction_score"),
  idle_ms: ms("idle_ms").notNull(),
  idle_at: ms("idle_at"),
});

export const workflows = sqliteTable("workflows", {
  id: text("id").primaryKey(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  user_id: text("user_id").notNull(),
  name: text("name").notNull(),
  description: text("description").notNull(),
  dataset_id: text("dataset_id"),
  images: strings("images").notNull(),
  definition_hash: text("definition_hash").notNull(),
  public_clone: flag("public_clone").notNull(),
  public_runnable: flag("public_runnable").notNull(),
  num_likes: integer("num_likes").notNull(),
  num_runs: integer("num_runs").notNull(),
  num_views: integer("num_views").notNull(),
  run_ms_total: integer("run_ms_total").notNull(),
  created_at: ms("created_at").notNull(),
  updated_at: ms("updated_at"),
  settings: text("settings", { mode: "json" }).$type<WorkflowSettings>(),
  published_version: integer("published_version"),
  published_hash: text("published_hash"),
});

export const workflowVersions = sqliteTable("workflow_versions", {
  workflow_id: text("workflow_id").notNull(),
  version: integer("version").notNull(),
  definition_hash: text("definition_hash").notNull(),
  description: text("description").notNull(),
  created_by: text("created_by").notNull(),
  created_at: ms("created_at").notNull(),
});

export const definitions = sqliteTable("definitions", {
  hash: text("hash").primaryKey(),
  definition: text("definition").notNull(),
});

export const hookTokens = sqliteTable("hook_tokens", {
  id: text("id").primaryKey(),
  target_type: text("target_type").$type<"agents" | "workflows">().notNull(),
  target_id: text("target_id").notNull(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  name: text("name").notNull(),
  token_hash: text("token_hash").notNull(),
  last_four: text("last_four").notNull(),
  created_at: ms("created_at").notNull(),
  expires_at: ms("expires_at"),
  revoked_at: ms("revoked_at"),
  last_used_at: ms("last_used_at"),
});

export const subscriptions = sqliteTable("subscriptions", {
  id: text("id").primaryKey(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  name: text("name").notNull(),
  url: text("url").notNull(),
  events: strings("events").notNull(),
  status: text("status").$type<"active" | "paused">().notNull(),
  status_reason: text("status_reason"),
  secret: text("secret").notNull(),
  authentication: text("authentication"),
  headers: text("headers"),
  retry_policy: object("retry_policy"),
  conditions: object("conditions"),
  filters: object("filters"),
  batch_settings: object("batch_settings"),
  total_deliveries: integer("total_deliveries").notNull(),
  successful_deliveries: integer("successful_deliveries").notNull(),
  failed_deliveries: integer("failed_deliveries").notNull(),
  last_delivery_at: ms("last_delivery_at"),
  created_at: ms("created_at").notNull(),
  updated_at: ms("updated_at"),
  previous_secret: text("previous_secret"),
  previous_secret_until: ms("previous_secret_until"),
  failing_since: ms("failing_since"),
  concurrency: integer("concurrency"),
  rate_limit_per_second: integer("rate_limit_per_second"),
  ordered: flag("ordered").notNull().default(false),
  line_head: text("line_head"),
  batch_id: text("batch_id"),
  batch_events: integer("batch_events").notNull().default(0),
  batch_bytes: integer("batch_bytes").notNull().default(0),
});

export const triggers = sqliteTable("triggers", {
  id: text("id").primaryKey(),
  agent_id: text("agent_id").notNull(),
  workspace_id: text("workspace_id").notNull(),
  project_id: text("project_id").notNull(),
  name: text("name").notNull(),
  description: text("description").notNull(),
  path: text("path").notNull(),
  method: text("method"),
  auth: text("auth", { mode: "json" }).$type<JsonObject & { type: string }>().notNull(),
  secret: text("secret"),
  previous_secret: text("previous_secret"),
  previous_until: ms("previous_until"),
  response_code: integer("response_code").notNull(),
  message: text("message").notNull(),
  conversation_id: text("conversation_id"),
  is_active: flag("is_active").notNull(),
  version: integer("version").notNull(),
  created_at: ms("created_at").notNull(),
  updated_at: ms("updated_at"),
});
