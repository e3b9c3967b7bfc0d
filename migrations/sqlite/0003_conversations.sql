ALTER TABLE conversations ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE conversations ADD COLUMN ended_as TEXT;         -- resolved, idle; null while it goes on
ALTER TABLE conversations ADD COLUMN resolution TEXT;       -- JSON
ALTER TABLE conversations ADD COLUMN satisfaction_score REAL;
ALTER TABLE conversations ADD COLUMN idle_ms INTEGER NOT NULL DEFAULT 86400000; -- its agent's, at the last message
ALTER TABLE conversations ADD COLUMN idle_at INTEGER;       -- when it completes if nothing more is said
UPDATE conversations SET idle_at = updated_at + idle_ms;
CREATE INDEX conversations_idle ON conversations (idle_at) WHERE status = 'active';

-- Turns form a tree: an answer once more, or a message said otherwise, begins another branch. The chosen
-- branch, `active` on its turns and messages, is what the model and the reader see.
ALTER TABLE turns ADD COLUMN parent_id TEXT;   -- the turn before it in its branch
ALTER TABLE turns ADD COLUMN answers TEXT;     -- the turn whose message it answers once more
ALTER TABLE turns ADD COLUMN active INTEGER NOT NULL DEFAULT 1;
CREATE INDEX turns_by_conversation ON turns (conversation_id, id);
UPDATE turns SET parent_id =
  (SELECT max(before.id) FROM turns before WHERE before.conversation_id = turns.conversation_id AND before.id < turns.id);

ALTER TABLE messages ADD COLUMN active INTEGER NOT NULL DEFAULT 1;
ALTER TABLE messages ADD COLUMN client_id TEXT; -- the client's own name of it
ALTER TABLE messages ADD COLUMN feedback TEXT;  -- JSON

-- Pictures that messages refer to; the same bytes are kept once in a conversation.
CREATE TABLE attachments (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX attachments_by_content ON attachments (conversation_id, sha256);
