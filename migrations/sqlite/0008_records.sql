-- What happened is read by time. The kind stands in the index, so that looking for one kind reads no row.
DROP INDEX deliveries_by_subscription;
CREATE INDEX deliveries_by_time ON deliveries (subscription_id, created_at, id, kind);
-- The states of trouble: most deliveries go from pending to success and never touch this index.
CREATE INDEX deliveries_apart ON deliveries (subscription_id, state, created_at, id)
  WHERE state NOT IN ('pending', 'success');
DROP INDEX events_by_project;
CREATE INDEX events_by_time ON events (project_id, created_at, id, kind);
CREATE INDEX events_by_subject ON events (subject_id, created_at, id);

-- Attempts of an hour counted by how they ended and how long they took: figures without reading deliveries.
CREATE TABLE delivery_figures (
  subscription_id TEXT NOT NULL,
  hour INTEGER NOT NULL,    -- its first moment
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,    -- success, retrying, failed; filtered for what was not to be sent
  speed INTEGER NOT NULL,   -- 2 * log2 of the milliseconds; -1 where nothing answered
  count INTEGER NOT NULL,
  PRIMARY KEY (subscription_id, hour, kind, outcome, speed)
) STRICT, WITHOUT ROWID;

CREATE TABLE alerts (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  subscription_id TEXT NOT NULL,
  kind TEXT NOT NULL,       -- exhausted, paused, recovered
  details TEXT NOT NULL,
  state TEXT NOT NULL,      -- pending, sent, logged, failed
  error TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX alerts_by_subscription ON alerts (subscription_id, id);

-- Subscriptions in trouble: a row from the first alert to the recovery.
CREATE TABLE troubles (
  subscription_id TEXT PRIMARY KEY,
  since INTEGER NOT NULL,
  alerted_at INTEGER NOT NULL -- the last alert of exhaustion: one an hour at most
) STRICT, WITHOUT ROWID;
