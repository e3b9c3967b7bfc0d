-- A workflow's settings beside the closed object, versions of its program, and the way to its runs by state and time.

ALTER TABLE workflows ADD COLUMN settings TEXT;             -- JSON; NULL: none was ever set
ALTER TABLE workflows ADD COLUMN published_version INTEGER; -- what runs; NULL: the draft does
ALTER TABLE workflows ADD COLUMN published_hash TEXT;

CREATE TABLE workflow_versions (
  workflow_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  definition_hash TEXT NOT NULL,
  description TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workflow_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_versions_by_definition ON workflow_versions (definition_hash);

-- Whole enough to filter, order and count by without touching a row of the table, whose rows are long.
DROP INDEX executions_by_workflow;
CREATE INDEX executions_by_workflow ON executions (workflow_id, state, created_at, id, source);
CREATE INDEX executions_by_project ON executions (project_id, state, created_at, id, source);
