import type { VaultStore } from "../../lib/vault.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

const SENTINEL = "vault";

export const vaultWrites = {
  "vault.keepSentinel": (db: Connection, sealed: string): void => {
    db.run(
      "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
      SENTINEL,
      sealed,
    );
  },
};

export const sqliteVault = ({ reader, writer }: Storage): VaultStore => ({
  sentinel: async () =>
    reader.get<{ value: string }>("SELECT value FROM settings WHERE name = ?", SENTINEL)?.value,
  keepSentinel: (sealed) => writer.submit("vault.keepSentinel", sealed),
});
