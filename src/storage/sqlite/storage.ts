import type { Connection } from "./connection.ts";
import type { Writer } from "./writer.ts";

/** What every sqlite store is made of: reads on this thread, writes by name to wherever the writer lives. */
export type Storage = { reader: Connection; writer: Writer };
