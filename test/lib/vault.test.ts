import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { openVault, proveVault, VaultError } from "../../src/lib/vault.ts";
import { sqliteVault } from "../../src/storage/sqlite/vault.ts";
import { memoryStorage } from "../helpers/storage.ts";

let data: string;
beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), "vault-"));
});
afterEach(() => rmSync(data, { recursive: true }));

const keyFile = () => join(data, "errand.key");
const aKey = (byte: number) => Buffer.alloc(32, byte).toString("base64");
const failure = (run: () => unknown): VaultError => {
  try {
    run();
  } catch (error) {
    if (error instanceof VaultError) return error;
  }
  throw new Error("no VaultError");
};

describe("sealing", () => {
  test("opens to the same text at the same place, and looks different every time", () => {
    const vault = openVault({ secret_key: aKey(1), data });
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.string(), (plain, place) => {
        const [sealed, again] = [vault.seal(plain, place), vault.seal(plain, place)];
        return sealed !== again && vault.open(sealed, place) === plain;
      }),
    );
    expect(vault.seal("canary-secret", "p")).not.toContain("canary");
  });

  test("is bound to its place and to its every character", () => {
    const vault = openVault({ secret_key: aKey(1), data });
    const sealed = vault.seal("secret", "subscriptions.secret:a");
    expect(failure(() => vault.open(sealed, "subscriptions.secret:b")).message).toContain("another place");
    fc.assert(
      fc.property(fc.integer({ min: 0, max: sealed.length - 2 }), (at) => {
        const changed = sealed.slice(0, at) + (sealed[at] === "A" ? "B" : "A") + sealed.slice(at + 1);
        failure(() => vault.open(changed, "subscriptions.secret:a"));
      }),
    );
    for (const text of ["", "v1", "v1..", "plain", sealed.slice(0, 30)]) {
      failure(() => vault.open(text, "subscriptions.secret:a"));
    }
  });

  test("with another key is named, with what to do", () => {
    const sealed = openVault({ secret_key: aKey(1), data }).seal("x", "p");
    const error = failure(() => openVault({ secret_key: aKey(2), data }).open(sealed, "p"));
    expect(error.message).toContain("sealed with key");
    expect(error.hint).toContain("errand.key");
  });
});

describe("the key file", () => {
  test("is made at the first seal, for its owner alone, and used from then on", () => {
    const vault = openVault({ data });
    expect(readdirSync(data)).toEqual([]);
    const sealed = vault.seal("x", "p");
    expect(readdirSync(data)).toEqual(["errand.key"]);
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    expect(Buffer.from(readFileSync(keyFile(), "utf8"), "base64")).toHaveLength(32);
    expect(openVault({ data }).open(sealed, "p")).toBe("x");
  });

  test("made by another process in the meantime is the one that counts", () => {
    const [one, two] = [openVault({ data }), openVault({ data })];
    const sealed = one.seal("x", "p");
    expect(two.open(two.seal("y", "p"), "p")).toBe("y");
    expect(two.open(sealed, "p")).toBe("x");
  });

  test("that others may read is refused with the command that helps", () => {
    openVault({ data }).seal("x", "p");
    for (const mode of [0o640, 0o604, 0o660]) {
      chmodSync(keyFile(), mode);
      expect(failure(() => openVault({ data })).hint).toBe(`chmod 600 ${keyFile()}`);
    }
  });

  test("that holds no key is refused", () => {
    writeFileSync(keyFile(), "nonsense\n", { mode: 0o600 });
    expect(failure(() => openVault({ data })).message).toContain("32 bytes");
  });

  test("is neither read nor made when a key is configured", () => {
    openVault({ secret_key: aKey(3), data }).seal("x", "p");
    expect(readdirSync(data)).toEqual([]);
  });
});

describe("at start", () => {
  test("a folder is proved to belong to its key, the first time by keeping a sentinel", async () => {
    const store = sqliteVault(memoryStorage());
    await proveVault(openVault({ data }), store);
    await proveVault(openVault({ data }), store);
    await expect(proveVault(openVault({ secret_key: aKey(9), data }), store)).rejects.toThrow(
      "sealed with key",
    );
  });

  test("a key file that was lost is missed, not replaced", async () => {
    const store = sqliteVault(memoryStorage());
    await proveVault(openVault({ data }), store);
    rmSync(keyFile());
    await expect(proveVault(openVault({ data }), store)).rejects.toThrow("is missing");
    expect(readdirSync(data)).toEqual([]);
  });
});
