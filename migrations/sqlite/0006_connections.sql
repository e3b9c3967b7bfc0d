-- Credentials for other systems, by name. What is secret of one is sealed; `settings` may be shown.
CREATE TABLE connections (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL, -- bearer, basic, header, smtp, model
  settings TEXT NOT NULL,
  secret TEXT NOT NULL, -- sealed
  created_at INTEGER NOT NULL,
  updated_at INTEGER
) STRICT;
CREATE UNIQUE INDEX connections_by_name ON connections (project_id, name);
