-- Outgoing webhooks: secrets that rotate, pauses that keep events, order, limits and batches.

ALTER TABLE subscriptions ADD COLUMN previous_secret TEXT; -- sealed; signs as well until its time is over
ALTER TABLE subscriptions ADD COLUMN previous_secret_until INTEGER;
ALTER TABLE subscriptions ADD COLUMN failing_since INTEGER; -- the first failed attempt after the last good one
ALTER TABLE subscriptions ADD COLUMN concurrency INTEGER;
ALTER TABLE subscriptions ADD COLUMN rate_limit_per_second INTEGER;
ALTER TABLE subscriptions ADD COLUMN ordered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN line_head TEXT; -- ordered: the delivery whose turn it is
ALTER TABLE subscriptions ADD COLUMN batch_id TEXT;  -- the batch that takes events; itself a delivery
ALTER TABLE subscriptions ADD COLUMN batch_events INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN batch_bytes INTEGER NOT NULL DEFAULT 0;

ALTER TABLE deliveries ADD COLUMN batch_id TEXT; -- of an event that went into a batch

-- Small: a row is in one of them only while it waits.
CREATE INDEX deliveries_paused ON deliveries (subscription_id, id) WHERE state = 'paused';
CREATE INDEX deliveries_held ON deliveries (subscription_id, id) WHERE state = 'held';
CREATE INDEX deliveries_of_batch ON deliveries (batch_id, id) WHERE batch_id IS NOT NULL;
