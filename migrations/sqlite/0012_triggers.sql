-- Webhook addresses of agents, each with a way of its own to know its sender. Secrets are sealed; `auth` may be
-- shown.
CREATE TABLE triggers (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  path TEXT NOT NULL,
  method TEXT,                   -- null: any
  auth TEXT NOT NULL,
  secret TEXT,                   -- sealed
  previous_secret TEXT,          -- sealed
  previous_until INTEGER,
  response_code INTEGER NOT NULL,
  message TEXT NOT NULL,
  conversation_id TEXT,          -- template
  is_active INTEGER NOT NULL,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER
) STRICT;
CREATE UNIQUE INDEX triggers_by_path ON triggers (path);
CREATE INDEX triggers_by_agent ON triggers (agent_id, id);

-- What called a trigger and what it was answered. An accepted one stands as its turn does.
CREATE TABLE trigger_events (
  id TEXT PRIMARY KEY,
  trigger_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  state TEXT NOT NULL,           -- accepted, ignored, rejected, refused (the sender was not recognised)
  request TEXT NOT NULL,
  response TEXT NOT NULL,
  error TEXT,
  turn_id TEXT,
  conversation_id TEXT,
  redelivery_of TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX trigger_events_by_trigger ON trigger_events (trigger_id, id);
CREATE INDEX trigger_events_by_age ON trigger_events (trigger_id, created_at, id);
CREATE INDEX trigger_events_rejected ON trigger_events (trigger_id, id) WHERE state IN ('rejected', 'refused');
CREATE INDEX trigger_events_by_conversation ON trigger_events (conversation_id) WHERE conversation_id IS NOT NULL;
