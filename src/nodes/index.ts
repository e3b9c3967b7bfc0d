import { apiCall } from "./api-call.ts";
import { llm } from "./llm.ts";
import type { NodeType } from "./node.ts";
import { setVariables } from "./set-variables.ts";

/** Every node type there is: one file each, one line here. */
const all: NodeType[] = [setVariables, apiCall, llm];

export const nodeTypes: ReadonlyMap<string, NodeType> = new Map(all.map((type) => [type.name, type]));

export const nodeType = (name: string): NodeType | undefined => nodeTypes.get(name);
