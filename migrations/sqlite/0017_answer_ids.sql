-- The id that the answer of a turn is told under from its first line on: what a crash leaves of it is recorded by that.
ALTER TABLE turns ADD COLUMN answer_id TEXT;
