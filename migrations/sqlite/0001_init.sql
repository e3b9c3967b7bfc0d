-- Times are epoch milliseconds, JSON is TEXT, ids come from the program: what another engine can hold as well.

CREATE TABLE workspaces (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  owner_email TEXT,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE projects (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX projects_by_workspace ON projects (workspace_id);

CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  project_id TEXT NOT NULL REFERENCES projects (id),
  name TEXT NOT NULL,
  public_id TEXT NOT NULL UNIQUE,
  secret_hash TEXT NOT NULL,
  last_four TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  last_used_at INTEGER
) STRICT;
CREATE INDEX keys_by_workspace ON keys (workspace_id);

CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  visibility TEXT NOT NULL,
  settings TEXT NOT NULL, -- JSON: the other fields of a create request
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER
) STRICT;
CREATE INDEX agents_by_project ON agents (project_id, id);

CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  owner TEXT NOT NULL,      -- who may continue it: the project, or one anonymous caller
  client_id TEXT NOT NULL,  -- the id the client threads by
  user_id TEXT,
  title TEXT,
  status TEXT NOT NULL,
  metadata TEXT NOT NULL,
  message_count INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  completed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX conversations_by_client ON conversations (agent_id, owner, client_id);
CREATE INDEX conversations_by_agent ON conversations (agent_id, id);

CREATE TABLE turns (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  state TEXT NOT NULL, -- queued, running, success, failed, interrupted, cancelled
  source TEXT NOT NULL, -- stream, webhook, trigger
  message_id TEXT,     -- the answer, once there is one
  error TEXT,
  hop INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER
) STRICT;
CREATE INDEX turns_unfinished ON turns (id) WHERE state IN ('queued', 'running');

CREATE TABLE messages (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  role TEXT NOT NULL,
  parts TEXT NOT NULL,
  state TEXT NOT NULL, -- complete, interrupted, failed
  usage TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_by_conversation ON messages (conversation_id, turn_id, id);

CREATE TABLE definitions (
  hash TEXT PRIMARY KEY,
  definition TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  dataset_id TEXT,
  images TEXT NOT NULL,
  definition_hash TEXT NOT NULL, -- input_schema, nodes and output_mapping, by content
  public_clone INTEGER NOT NULL,
  public_runnable INTEGER NOT NULL,
  num_likes INTEGER NOT NULL DEFAULT 0,
  num_runs INTEGER NOT NULL DEFAULT 0,
  num_views INTEGER NOT NULL DEFAULT 0,
  run_ms_total INTEGER NOT NULL DEFAULT 0, -- of num_runs; for estimated_completion
  created_at INTEGER NOT NULL,
  updated_at INTEGER
) STRICT;
CREATE INDEX workflows_by_project ON workflows (project_id, id);

CREATE TABLE hook_tokens (
  id TEXT PRIMARY KEY,
  target_type TEXT NOT NULL, -- agents, workflows
  target_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  name TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE,
  last_four TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  last_used_at INTEGER
) STRICT;
CREATE INDEX hook_tokens_by_target ON hook_tokens (target_type, target_id);

CREATE TABLE idempotency (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  status INTEGER NOT NULL,
  response TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

CREATE TABLE executions (
  id TEXT PRIMARY KEY,
  workflow_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  definition_hash TEXT NOT NULL,
  state TEXT NOT NULL, -- queued, running, waiting, success, failed, cancelled
  source TEXT NOT NULL,
  metadata TEXT NOT NULL,
  input TEXT NOT NULL,
  output TEXT,
  error TEXT,
  hop INTEGER NOT NULL,
  external_calls INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  steps_completed INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER
) STRICT, WITHOUT ROWID; -- ids grow with time, so rows are appended and found in one tree
CREATE INDEX executions_by_workflow ON executions (workflow_id, id);

CREATE TABLE steps (
  execution_id TEXT NOT NULL,
  position TEXT NOT NULL, -- where in the definition, branches and iterations included
  seq INTEGER NOT NULL,
  name TEXT NOT NULL,
  node_type_name TEXT NOT NULL,
  state TEXT NOT NULL, -- started, success, failed, skipped
  attempts INTEGER NOT NULL,
  input TEXT,
  output TEXT,
  error TEXT,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (execution_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE subscriptions (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  status TEXT NOT NULL, -- active, paused
  status_reason TEXT,
  secret TEXT NOT NULL,         -- sealed
  authentication TEXT,          -- sealed
  headers TEXT,                 -- sealed
  retry_policy TEXT,
  conditions TEXT,
  filters TEXT,
  batch_settings TEXT,
  total_deliveries INTEGER NOT NULL DEFAULT 0,
  successful_deliveries INTEGER NOT NULL DEFAULT 0,
  failed_deliveries INTEGER NOT NULL DEFAULT 0,
  last_delivery_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER
) STRICT;
CREATE INDEX subscriptions_by_project ON subscriptions (project_id, id);

CREATE TABLE events (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject_id TEXT NOT NULL, -- the execution or conversation it tells of
  data TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_project ON events (project_id, id);

CREATE TABLE deliveries (
  id TEXT PRIMARY KEY,
  event_id TEXT NOT NULL,
  subscription_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL, -- pending, retrying, success, failed, filtered, paused, cancelled
  reason TEXT,         -- why it is not simply on its way
  hop INTEGER NOT NULL,
  body TEXT NOT NULL,  -- the very bytes, sent on every attempt
  attempts INTEGER NOT NULL,
  attempts_max INTEGER NOT NULL,
  response_code INTEGER,
  response_time_ms INTEGER,
  next_attempt_at INTEGER,
  created_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX deliveries_by_subscription ON deliveries (subscription_id, id);
CREATE INDEX deliveries_by_event ON deliveries (event_id);

CREATE TABLE attempts (
  delivery_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  response_code INTEGER,
  response_time_ms INTEGER NOT NULL,
  response_excerpt TEXT,
  error_class TEXT,
  error TEXT,
  PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;

-- Hot and small: a row lives while its work is due or under way; history lives with what was worked.
CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  tenant TEXT NOT NULL, -- the workspace: lanes are shared round robin between tenants
  key TEXT NOT NULL,    -- what a cap counts: the workflow, the subscription, the conversation
  ref TEXT NOT NULL,    -- the execution, delivery or turn it works
  state TEXT NOT NULL,  -- ready, running, dead
  run_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  owner TEXT,
  error TEXT,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_ready ON jobs (lane, key, run_at, id) WHERE state = 'ready';
CREATE INDEX jobs_due ON jobs (lane, run_at) WHERE state = 'ready';
CREATE INDEX jobs_running ON jobs (id) WHERE state = 'running';
CREATE INDEX jobs_dead ON jobs (id) WHERE state = 'dead';
CREATE INDEX jobs_by_ref ON jobs (ref);

-- Facts about this database itself, such as the proof of which key its secrets are sealed with.
CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
