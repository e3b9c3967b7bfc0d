import { createEgress } from "../../src/egress/egress.ts";
import type { NodeServices } from "../../src/nodes/node.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { modelOf } from "../nodes/setup.ts";
import type { TestClock } from "./clock.ts";
import { connectionsOf } from "./connections.ts";
import { unconfiguredMail } from "./mail.ts";

/** What nodes may use, over this storage: a silent model, no mail server, no agents. */
export function nodeServices(
  storage: Storage,
  clock: TestClock,
  given: Partial<NodeServices> = {},
): NodeServices {
  const egress = given.egress ?? createEgress({ allow: ["loopback"] });
  return {
    egress,
    models: modelOf().models,
    mail: unconfiguredMail(egress),
    connections: connectionsOf(storage, clock),
    askAgent: async () => ({ outcome: "failed", code: "NO_AGENTS", message: "There are no agents here." }),
    clock,
    ...given,
  };
}
