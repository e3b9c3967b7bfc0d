import { setVariables } from "./setup.ts";

type Given = { name: string; node_type_name: string; input_config: Record<string, unknown> };

/** A node of any type, for tests that put flows together. */
export const aNode = (
  node_type_name: string,
  name: string,
  input_config: object,
  options?: object,
): Given => ({
  node_type_name,
  name,
  input_config: { ...input_config, ...(options ? { _options: options } : {}) },
});

export const condition = (name: string, when: unknown, then: Given[], more: object = {}) =>
  aNode("condition", name, { if: when, then, ...more });

export const forEach = (name: string, items: unknown, nodes: Given[], more: object = {}, options?: object) =>
  aNode("for_each", name, { items, nodes, ...more }, options);

export const parallel = (name: string, branches: Record<string, Given[]>, more: object = {}) =>
  aNode("parallel", name, { branches, ...more });

export const wait = (name: string, config: object, options?: object) => aNode("wait", name, config, options);

export const call = (name: string, workflow_id: string, workflow_input: object = {}, more: object = {}) =>
  aNode("call_other_workflow", name, { workflow_id, workflow_input, ...more });

export const stop = (name: string, config: object = {}) => aNode("stop_workflow", name, config);

/** Fails whenever it runs. */
export const failing = (name: string, options?: object) =>
  setVariables(name, { x: "{{ nothing.here }}" }, options);
