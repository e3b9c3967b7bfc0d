import { type Entry, group, leaf } from "./entry.ts";
import { asJson, between, folder, forSettings, type Options, option, project } from "./options.ts";

const ofWorkflows = () => import("./workflows.ts");
const ofRun = () => import("./run.ts");
const ofRuns = () => import("./runs.ts");
const ofNodes = () => import("./nodes.ts");

const record = [folder, project, asJson];
const from = option("--from <file>", "JSON file of the workflow; - is standard input");
const description = option("--description <text>", "What is new in the version");
const follow = option("--follow", "Print each step as it ends");
const which = (usual: string): Options =>
  option("--version <version>", `Version, or draft (default: ${usual})`);

const runsHere = [forSettings("data", "allow_targets", "default_model"), project, asJson];
const input = option("--input <json>", "Input as JSON; @FILE reads a file, - standard input");

const workflows = group("workflows", "Workflows: make, publish, move and run them", [
  leaf("list", "List workflows", record, async () => (await ofWorkflows()).listWorkflows),
  leaf(
    "show <id>",
    "Show a workflow with its nodes and settings",
    record,
    async () => (await ofWorkflows()).showWorkflow,
  ),
  leaf("create", "Make one", [...record, from], async () => (await ofWorkflows()).createWorkflow),
  leaf(
    "update <id>",
    "Save what the file has of it as its draft",
    [...record, from],
    async () => (await ofWorkflows()).updateWorkflow,
  ),
  leaf("delete <id>", "Delete one", [folder, project], async () => (await ofWorkflows()).deleteWorkflow),
  leaf(
    "settings <id>",
    "Show what is set beside it, or set what the file has",
    [...record, from],
    async () => (await ofWorkflows()).workflowSettings,
  ),
  leaf(
    "validate <target>",
    "Tell everything that is wrong with a file or a stored workflow",
    record,
    async () => (await ofWorkflows()).validateWorkflow,
  ),
  leaf(
    "publish <id>",
    "Let the draft run, as a new version, or an older version again",
    [
      ...record,
      description,
      which("the draft, as a new one"),
      option("--none", "Let the draft run, whatever it is"),
    ],
    async () => (await ofWorkflows()).publishWorkflow,
  ),
  leaf("versions <id>", "List its versions", record, async () => (await ofWorkflows()).listVersions),
  leaf(
    "restore <id> <version>",
    "Make its draft what a version is",
    record,
    async () => (await ofWorkflows()).restoreVersion,
  ),
  leaf(
    "export <id> [file]",
    "Write it to one JSON file, without credentials (default: standard output)",
    [folder, project],
    async () => (await ofWorkflows()).exportWorkflow,
  ),
  leaf(
    "import <file>",
    "Make one of an exported file",
    record,
    async () => (await ofWorkflows()).importWorkflow,
  ),
  leaf(
    "run <target>",
    "Run a stored workflow or a file; prints the output",
    [...runsHere, input, which("what is published"), follow],
    async () => (await ofRun()).runWorkflow,
  ),
]);

const runs = group("runs", "Runs of workflows", [
  leaf(
    "list",
    "List runs, newest first",
    [
      ...record,
      option("--workflow <id>", "Only of this workflow"),
      option("--status <status>", "Only with this status"),
      option("--source <source>", "Only started by this: api, webhook, agent, ..."),
      between,
      option("--limit <count>", "How many (default: 50)"),
    ],
    async () => (await ofRuns()).listRuns,
  ),
  leaf("show <id>", "Show a run with its steps", record, async () => (await ofRuns()).showRun),
  leaf(
    "logs <id>",
    "Print what happened, step by step",
    [folder, project, follow],
    async () => (await ofRuns()).runLogs,
  ),
  leaf(
    "retry <id>",
    "Go on with a failed run over what was done, as a new run",
    [
      ...runsHere,
      option("--from-node <name>", "Go on from this node (default: from where it failed)"),
      follow,
    ],
    async () => (await ofRun()).retryRun,
  ),
  leaf(
    "replay <id>",
    "Run it again from the beginning, with the same input or another",
    [...runsHere, input, follow],
    async () => (await ofRun()).replayRun,
  ),
  leaf("cancel <id>", "End a run that has not ended", record, async () => (await ofRuns()).cancelRun),
]);

const nodes = group("nodes", "Node types that workflows are made of", [
  leaf("list", "List the node types", [asJson], async () => (await ofNodes()).listNodes),
  leaf(
    "show <name>",
    "Show what a node type takes and gives",
    [asJson],
    async () => (await ofNodes()).showNode,
  ),
]);

export const workflowCommands: Entry[] = [workflows, runs, nodes];
