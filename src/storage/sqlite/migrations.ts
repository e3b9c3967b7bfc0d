import init from "../../../migrations/sqlite/0001_init.sql" with { type: "text" };
import turns from "../../../migrations/sqlite/0002_turns.sql" with { type: "text" };
import conversations from "../../../migrations/sqlite/0003_conversations.sql" with { type: "text" };
import flow from "../../../migrations/sqlite/0004_flow.sql" with { type: "text" };
import workflowVersions from "../../../migrations/sqlite/0005_workflow_versions.sql" with { type: "text" };
import connections from "../../../migrations/sqlite/0006_connections.sql" with { type: "text" };
import delivery from "../../../migrations/sqlite/0007_delivery.sql" with { type: "text" };
import records from "../../../migrations/sqlite/0008_records.sql" with { type: "text" };
import hooks from "../../../migrations/sqlite/0010_hooks.sql" with { type: "text" };
import jobs from "../../../migrations/sqlite/0011_jobs.sql" with { type: "text" };
import triggers from "../../../migrations/sqlite/0012_triggers.sql" with { type: "text" };
import responses from "../../../migrations/sqlite/0013_responses.sql" with { type: "text" };
import deliveryBytes from "../../../migrations/sqlite/0014_delivery_bytes.sql" with { type: "text" };
import askedBy from "../../../migrations/sqlite/0016_asked_by.sql" with { type: "text" };
import answerIds from "../../../migrations/sqlite/0017_answer_ids.sql" with { type: "text" };
import runLists from "../../../migrations/sqlite/0019_run_lists.sql" with { type: "text" };
import turnSettings from "../../../migrations/sqlite/0021_turn_settings.sql" with { type: "text" };
import deliverySpeed from "../../../migrations/sqlite/0022_delivery_speed.sql" with { type: "text" };
import keptVersions from "../../../migrations/sqlite/0023_kept_versions.sql" with { type: "text" };
import turnWords from "../../../migrations/sqlite/0024_turn_words.sql" with { type: "text" };
import stepsInside from "../../../migrations/sqlite/0025_steps_inside.sql" with { type: "text" };

/** In order; a released file never changes, a test holds the list against the folder. */
export const migrations = [
  { version: 1, name: "0001_init.sql", sql: init },
  { version: 2, name: "0002_turns.sql", sql: turns },
  { version: 3, name: "0003_conversations.sql", sql: conversations },
  { version: 4, name: "0004_flow.sql", sql: flow },
  { version: 5, name: "0005_workflow_versions.sql", sql: workflowVersions },
  { version: 6, name: "0006_connections.sql", sql: connections },
  { version: 7, name: "0007_delivery.sql", sql: delivery },
  { version: 8, name: "0008_records.sql", sql: records },
  { version: 10, name: "0010_hooks.sql", sql: hooks },
  { version: 11, name: "0011_jobs.sql", sql: jobs },
  { version: 12, name: "0012_triggers.sql", sql: triggers },
  { version: 13, name: "0013_responses.sql", sql: responses },
  { version: 14, name: "0014_delivery_bytes.sql", sql: deliveryBytes },
  { version: 16, name: "0016_asked_by.sql", sql: askedBy },
  { version: 17, name: "0017_answer_ids.sql", sql: answerIds },
  { version: 19, name: "0019_run_lists.sql", sql: runLists },
  { version: 21, name: "0021_turn_settings.sql", sql: turnSettings },
  { version: 22, name: "0022_delivery_speed.sql", sql: deliverySpeed },
  { version: 23, name: "0023_kept_versions.sql", sql: keptVersions },
  { version: 24, name: "0024_turn_words.sql", sql: turnWords },
  { version: 25, name: "0025_steps_inside.sql", sql: stepsInside },
];
