-- Branches, loops, children and waits of workflows. Times are epoch milliseconds, JSON is TEXT.

ALTER TABLE executions ADD COLUMN parent_id TEXT;              -- the execution whose step started this one
ALTER TABLE executions ADD COLUMN parent_position TEXT;        -- that step, and its attempt past the first
ALTER TABLE executions ADD COLUMN parent_waits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN origin_id TEXT;              -- what this one is a retry or a replay of
ALTER TABLE executions ADD COLUMN deadline_at INTEGER;
ALTER TABLE executions ADD COLUMN response TEXT;               -- JSON: what respond_to_webhook answered
-- A step starts its child once, however often it is run.
CREATE UNIQUE INDEX executions_by_parent ON executions (parent_id, parent_position) WHERE parent_id IS NOT NULL;

ALTER TABLE steps ADD COLUMN wake_at INTEGER;                  -- of those that wait: when to go on at the latest
ALTER TABLE steps ADD COLUMN rev INTEGER NOT NULL DEFAULT 0;   -- grows with every change within an execution

-- Something happened that the job waits for; a job that runs just then looks again before it sleeps.
ALTER TABLE jobs ADD COLUMN woken INTEGER NOT NULL DEFAULT 0;

-- Waits that end by a call from outside.
CREATE TABLE waits (
  id TEXT PRIMARY KEY,
  execution_id TEXT NOT NULL,
  position TEXT NOT NULL,
  token TEXT NOT NULL, -- sealed
  signal TEXT,         -- JSON: what the caller sent, once
  signalled_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX waits_by_step ON waits (execution_id, position);
