import { createConnections } from "../../src/connections/service.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { openVault } from "../../src/lib/vault.ts";
import { sqliteConnections } from "../../src/storage/sqlite/connections.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";

export const testVault = () =>
  openVault({ secret_key: Buffer.alloc(32, 7).toString("base64"), data: "/nonexistent" });

/** The connections kept in this storage, sealed with the tests' key. */
export const connectionsOf = (storage: Storage, clock: Clock) =>
  createConnections({ store: sqliteConnections(storage), vault: testVault(), clock });
