-- Steps of turns under way that called tools, so that a crash or a wait repeats none of them; they go when
-- the answer is on record. `path`: the calls of sub-agents that lead to it, '' for the agent spoken to.
CREATE TABLE turn_steps (
  turn_id TEXT NOT NULL,
  path TEXT NOT NULL,
  seq INTEGER NOT NULL,
  parts TEXT NOT NULL,
  reason TEXT NOT NULL,
  usage TEXT NOT NULL,
  PRIMARY KEY (turn_id, path, seq)
) STRICT, WITHOUT ROWID;

-- Calls that wait for somebody's yes or no, and what was answered.
CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  turn_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  path TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  args TEXT NOT NULL,
  state TEXT NOT NULL, -- pending, approved, denied
  reason TEXT,
  created_at INTEGER NOT NULL,
  answered_at INTEGER
) STRICT;
CREATE INDEX approvals_by_turn ON approvals (turn_id);
CREATE INDEX approvals_by_conversation ON approvals (conversation_id, id);

-- A stream's turn that a job goes on with after an approval: not lost when the program ends.
ALTER TABLE turns ADD COLUMN has_job INTEGER NOT NULL DEFAULT 0;

CREATE INDEX turns_open ON turns (conversation_id) WHERE ended_at IS NULL;

ALTER TABLE conversations ADD COLUMN suggested_replies TEXT NOT NULL DEFAULT '[]';

-- Every state that an agent was in, the present one included.
CREATE TABLE agent_versions (
  agent_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  visibility TEXT NOT NULL,
  settings TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (agent_id, version)
) STRICT;
INSERT INTO agent_versions (agent_id, version, name, description, visibility, settings, created_at)
  SELECT id, version, name, description, visibility, settings, coalesce(updated_at, created_at) FROM agents;
