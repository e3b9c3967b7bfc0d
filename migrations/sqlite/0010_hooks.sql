-- What an answer of an agent usually takes: the newest hundred or so, of which older ones weigh less.
ALTER TABLE agents ADD COLUMN recent_turns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN recent_turn_ms INTEGER NOT NULL DEFAULT 0;
