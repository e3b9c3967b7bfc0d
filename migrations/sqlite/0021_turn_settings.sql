-- What an agent is for one turn alone, while the turn waits for an approval: its request is long answered by then.
ALTER TABLE turns ADD COLUMN settings TEXT;
