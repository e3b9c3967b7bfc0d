import { apiCall } from "./api-call.ts";
import { classifyText } from "./classify-text.ts";
import { extractContent } from "./extract-content.ts";
import { listOperations } from "./list-operations.ts";
import { llm } from "./llm.ts";
import type { NodeType } from "./node.ts";
import { parseData } from "./parse-data.ts";
import { renderTemplate } from "./render-template.ts";
import { runAgent } from "./run-agent.ts";
import { sendEmail } from "./send-email.ts";
import { setVariables } from "./set-variables.ts";
import { stringToJson } from "./string-to-json.ts";
import { webRetrieval } from "./web-retrieval.ts";

/** Every node type there is: one file each, one line here. */
const all: NodeType[] = [
  setVariables,
  renderTemplate,
  listOperations,
  parseData,
  stringToJson,
  extractContent,
  apiCall,
  webRetrieval,
  llm,
  classifyText,
  runAgent,
  sendEmail,
];

export const nodeTypes: ReadonlyMap<string, NodeType> = new Map(all.map((type) => [type.name, type]));

export const nodeType = (name: string): NodeType | undefined => nodeTypes.get(name);
