-- Answers to requests of OpenAI's responses that their clients may refer to for a month, with what they answer.
CREATE TABLE responses (
  id TEXT PRIMARY KEY, -- resp_ and a UUIDv7 without its hyphens: grows with time
  project_id TEXT NOT NULL,
  previous_id TEXT,
  input TEXT NOT NULL,    -- items, as they were sent
  response TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX responses_by_age ON responses (created_at);
