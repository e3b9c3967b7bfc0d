import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { sha256Hex } from "./secrets.ts";

/**
 * Keeps secrets that must be read again (signing secrets, receivers' credentials). AES-256-GCM; `place` is
 * "table.column:row id" and bound to the text, so a sealed value moved to another row does not open.
 */
export type Vault = {
  seal(plain: string, place: string): string;
  /** Throws VaultError when the text was changed, moved, or sealed with another key. */
  open(sealed: string, place: string): string;
  /** Names the key without telling it. */
  keyId(): string;
  /** A sealed word to keep in the database: proof, at a later start, of having the key it was sealed with. */
  sentinel(): string;
  /** Throws VaultError when the key is missing or is not the one that sealed `sentinel`. Makes no key. */
  verify(sentinel: string): void;
};

/** The key is missing, open to others, or not the right one. `hint` says what to do about it. */
export class VaultError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
    this.name = "VaultError";
  }
}

/** Where the secrets kept in the database are opened from: told once at start. */
export type VaultStore = {
  sentinel(): Promise<string | undefined>;
  /** Keeps the sentinel unless there is one. */
  keepSentinel(sealed: string): Promise<void>;
};

export const KEY_FILE = "errand.key";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = "v1";
const SENTINEL = { word: "errand", place: "settings.value:vault" };

const WRONG_KEY_HINT =
  "Put back the errand.key, or the ERRAND_SECRET_KEY, that belongs to this data folder (a backup may hold it).";

/**
 * The vault of a data folder. `secret_key` (base64 of 32 bytes) goes before the folder's key file, which is
 * made, readable by its owner alone, when something is sealed for the first time.
 * Throws VaultError on a key file that others may read or that holds no key.
 */
export function openVault({ secret_key, data }: { secret_key?: string; data: string }): Vault {
  const path = join(data, KEY_FILE);
  let held: { key: Buffer; id: string } | undefined;

  const hold = (key: Buffer) => {
    held = { key, id: sha256Hex(Buffer.concat([Buffer.from("errand key id:"), key])).slice(0, 8) };
    return held;
  };
  if (secret_key !== undefined) hold(parseKey(secret_key, "the configured secret key"));
  else if (existsSync(path)) hold(readKeyFile(path));

  function toOpen() {
    if (held) return held;
    if (!existsSync(path)) throw new VaultError(`the key file ${path} is missing`, WRONG_KEY_HINT);
    return hold(readKeyFile(path));
  }

  function toSeal() {
    if (held) return held;
    if (!existsSync(path)) makeKeyFile(path);
    return hold(readKeyFile(path));
  }

  const bound = (place: string, id: string) => Buffer.from(`${VERSION}|${id}|${place}`);

  function seal(plain: string, place: string): string {
    const { key, id } = toSeal();
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(bound(place, id));
    const sealed = Buffer.concat([nonce, cipher.update(plain, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return `${VERSION}.${id}.${sealed.toString("base64url")}`;
  }

  function open(sealed: string, place: string): string {
    const { key, id } = toOpen();
    const [version, sealedBy, text = ""] = sealed.split(".");
    const bytes = Buffer.from(text, "base64url");
    if (version !== VERSION || bytes.length < NONCE_BYTES + TAG_BYTES) {
      throw new VaultError(`${place} does not hold a sealed value`);
    }
    if (sealedBy !== id) {
      throw new VaultError(`${place} was sealed with key ${sealedBy}, this is key ${id}`, WRONG_KEY_HINT);
    }
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(bound(place, id)).setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      const plain = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
      return Buffer.concat([plain, decipher.final()]).toString("utf8");
    } catch {
      throw new VaultError(`${place} was changed after it was sealed, or belongs to another place`);
    }
  }

  return {
    seal,
    open,
    keyId: () => toOpen().id,
    sentinel: () => seal(SENTINEL.word, SENTINEL.place),
    verify(sentinel) {
      open(sentinel, SENTINEL.place);
    },
  };
}

/** At start: a data folder opened with a key that is not its own is refused before anything is lost in it. */
export async function proveVault(vault: Vault, store: VaultStore): Promise<void> {
  const kept = await store.sentinel();
  if (kept !== undefined) vault.verify(kept);
  else await store.keepSentinel(vault.sentinel());
}

function parseKey(text: string, from: string): Buffer {
  const key = Buffer.from(text.trim(), "base64");
  if (key.length === KEY_BYTES) return key;
  throw new VaultError(`${from} is not base64 of 32 bytes`, "Make one with: openssl rand -base64 32");
}

function readKeyFile(path: string): Buffer {
  // Windows has no such bits; its files take the rights of the folder.
  if (process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
    throw new VaultError(`${path} can be read by others`, `chmod 600 ${path}`);
  }
  return parseKey(readFileSync(path, "utf8"), path);
}

/** Whole or not at all, and never over another: the command line may be making one at the same moment. */
function makeKeyFile(path: string): void {
  const fresh = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const file = openSync(fresh, "wx", 0o600);
  try {
    writeSync(file, `${randomBytes(KEY_BYTES).toString("base64")}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    linkSync(fresh, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Some file systems have no hard links.
    if (code !== "EEXIST") renameSync(fresh, path);
  }
  rmSync(fresh, { force: true });
  syncFolder(join(path, ".."));
}

// A power cut must not leave sealed rows without the key that opens them.
function syncFolder(path: string): void {
  if (process.platform === "win32") return;
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
