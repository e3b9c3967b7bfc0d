-- What answers under way have said since their last whole step, kept now and then so that a crash leaves it in
-- the conversation. In order of rowid; it goes when the step, or the answer, is on record.
CREATE TABLE turn_words (
  turn_id TEXT NOT NULL,
  parts TEXT NOT NULL
) STRICT;
CREATE INDEX turn_words_by_turn ON turn_words (turn_id);
