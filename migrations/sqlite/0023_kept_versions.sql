-- What every incoming webhook looks up is kept from one commit to the next, too.
INSERT INTO versions (name, version) VALUES ('hook_tokens', 0), ('workflows', 0);

CREATE TRIGGER hook_tokens_inserted AFTER INSERT ON hook_tokens BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'hook_tokens';
END;
CREATE TRIGGER hook_tokens_deleted AFTER DELETE ON hook_tokens BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'hook_tokens';
END;
-- Not of the mark of its last use.
CREATE TRIGGER hook_tokens_changed AFTER UPDATE OF
  id, target_type, target_id, workspace_id, project_id, name, token_hash, last_four, created_at, expires_at, revoked_at
ON hook_tokens BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'hook_tokens';
END;

CREATE TRIGGER workflows_inserted AFTER INSERT ON workflows BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'workflows';
END;
CREATE TRIGGER workflows_deleted AFTER DELETE ON workflows BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'workflows';
END;
-- Not of the counters.
CREATE TRIGGER workflows_changed AFTER UPDATE OF
  id, workspace_id, project_id, user_id, name, description, dataset_id, images, definition_hash, public_clone,
  public_runnable, settings, published_version, published_hash
ON workflows BEGIN
  UPDATE versions SET version = version + 1 WHERE name = 'workflows';
END;
