-- Lists of runs by time, without the state: a run that goes from queued to its end leaves these two as they are.
DROP INDEX executions_by_workflow;
DROP INDEX executions_by_project;
CREATE INDEX executions_by_workflow ON executions (workflow_id, created_at, id, source);
CREATE INDEX executions_by_project ON executions (project_id, created_at, id, source);
-- The ends that are looked for among many others. A run that ends well never touches them.
CREATE INDEX executions_apart ON executions (workflow_id, state, created_at, id, source)
  WHERE state IN ('failed', 'cancelled');
CREATE INDEX executions_apart_in_project ON executions (project_id, state, created_at, id, source)
  WHERE state IN ('failed', 'cancelled');
-- Small: a row is in it until its run ends. By its end and not its state, which may change three times before.
CREATE INDEX executions_active ON executions (project_id, created_at, id, workflow_id) WHERE ended_at IS NULL;
