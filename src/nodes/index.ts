import { apiCall } from "./api-call.ts";
import { callOtherWorkflow } from "./call-other-workflow.ts";
import { classifyText } from "./classify-text.ts";
import { condition } from "./condition.ts";
import { extractContent } from "./extract-content.ts";
import { forEach } from "./for-each.ts";
import { listOperations } from "./list-operations.ts";
import { llm } from "./llm.ts";
import type { NodeType } from "./node.ts";
import { parallel } from "./parallel.ts";
import { parseData } from "./parse-data.ts";
import { renderTemplate } from "./render-template.ts";
import { respondToWebhook } from "./respond-to-webhook.ts";
import { runAgent } from "./run-agent.ts";
import { sendEmail } from "./send-email.ts";
import { setVariables } from "./set-variables.ts";
import { stopWorkflow } from "./stop-workflow.ts";
import { stringToJson } from "./string-to-json.ts";
import { wait } from "./wait.ts";
import { webRetrieval } from "./web-retrieval.ts";

/** Every node type there is: one file each, one line here. */
const all: NodeType[] = [
  setVariables,
  apiCall,
  llm,
  condition,
  forEach,
  parallel,
  callOtherWorkflow,
  wait,
  respondToWebhook,
  stopWorkflow,
  renderTemplate,
  listOperations,
  parseData,
  stringToJson,
  extractContent,
  webRetrieval,
  classifyText,
  runAgent,
  sendEmail,
];

export const nodeTypes: ReadonlyMap<string, NodeType> = new Map(all.map((type) => [type.name, type]));

export const nodeType = (name: string): NodeType | undefined => nodeTypes.get(name);
