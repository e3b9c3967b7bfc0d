-- A delivery on its first attempt has no row in jobs unless it must wait: this is how a start finds what an earlier
-- life left under way. Small: most rows leave it within moments.
CREATE INDEX deliveries_pending ON deliveries (subscription_id, id) WHERE state = 'pending';

-- Of a delivery whose first attempt succeeded, which has no row in attempts: nothing more is to be told of it.
ALTER TABLE deliveries ADD COLUMN attempted_at INTEGER;
ALTER TABLE deliveries ADD COLUMN response_excerpt TEXT;

-- Grows with every change of what readers may keep from one commit to the next, whoever makes it.
CREATE TABLE versions (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO versions (name, version) VALUES ('subscriptions', 0);
CREATE TRIGGER subscriptions_inserted AFTER INSERT ON subscriptions BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'subscriptions';
END;
CREATE TRIGGER subscriptions_deleted AFTER DELETE ON subscriptions BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'subscriptions';
END;
-- Not of the counters, nor of where its line and its batch stand.
CREATE TRIGGER subscriptions_changed AFTER UPDATE OF
  workspace_id, project_id, name, url, events, status, status_reason, secret, previous_secret, previous_secret_until,
  authentication, headers, retry_policy, conditions, filters, batch_settings, ordered, concurrency, rate_limit_per_second
ON subscriptions BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'subscriptions';
END;
