import Type from "typebox";
import { Node } from "../workflows/schema.ts";

const MOST_NODES = 200;

/** A list of nodes inside of another; what stands in it is checked as the workflow's own list is. */
export const nodeList = (description: string) => Type.Array(Node, { maxItems: MOST_NODES, description });
