-- The execution that waits for a turn's answer: its job is woken in the commit that ends the turn.
ALTER TABLE turns ADD COLUMN asked_by TEXT;
