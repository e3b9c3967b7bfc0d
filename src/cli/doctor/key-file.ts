import { existsSync } from "node:fs";
import { join } from "node:path";
import { KEY_FILE, openVault, VaultError } from "../../lib/vault.ts";
import { type Check, fail, ok } from "./check.ts";

export const keyFile: Check = {
  name: "secret key",
  run({ config: { data, secret_key }, database }) {
    const from = secret_key === undefined ? join(data, KEY_FILE) : "the configured key";
    const sentinel = database?.sentinel;
    if (secret_key === undefined && sentinel === undefined && !existsSync(join(data, KEY_FILE))) {
      return ok("none needed yet");
    }
    try {
      const vault = openVault({ secret_key, data });
      if (sentinel !== undefined) vault.verify(sentinel);
      return ok(`${from} opens the secrets`);
    } catch (error) {
      if (!(error instanceof VaultError)) throw error;
      return fail(error.message, error.hint);
    }
  },
};
