import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { bytes } from "../lib/terminal.ts";
import { KEY_FILE } from "../lib/vault.ts";
import type { BackupReport } from "../storage/folder.ts";
import { VERSION } from "../version.ts";
import { type Call, configOf, noDatabase } from "./command.ts";
import { EXIT, ExitError } from "./exit.ts";
import { putJson, putList, putRecord } from "./output.ts";

const withoutKey = (again: string) =>
  "warning: the file holds no key. The secrets in it (signing secrets, receivers' credentials) open only with\n" +
  `errand.key or ERRAND_SECRET_KEY of its data folder: keep that apart, or ${again}.\n`;
const WITH_KEY = "warning: the file holds the key too. Whoever reads it reads every secret in it.\n";

export async function createBackup(call: Call): Promise<void> {
  const { config } = configOf(call);
  const folder = await call.program.folder();
  if (folder.schema(config.data) === undefined) throw noDatabase(config.data);
  const withKey = call.flags["withKey"] === true;
  const key = withKey ? keyOf(config) : undefined;
  const report = folder.backup(config.data, { file: call.args[0], version: VERSION, now: Date.now(), key });
  putReport(call, report);
  call.output.words(withKey ? WITH_KEY : withoutKey("back up again with --with-key"));
}

export async function listBackups(call: Call): Promise<void> {
  const { config } = configOf(call);
  putList(
    call,
    (await call.program.folder()).backups(config.data),
    [
      { title: "FILE", value: (one) => one.file },
      { title: "SIZE", value: (one) => bytes(one.bytes) },
      { title: "MADE", value: (one) => one.modified_at },
    ],
    "no backups in the data folder; make one: errand backup create",
  );
}

export async function verifyBackup(call: Call): Promise<void> {
  const folder = await call.program.folder();
  const report = folder.verify(call.args[0]!);
  putReport(call, report);
  if (report.schema > folder.latestSchema()) {
    throw new ExitError(
      EXIT.newer,
      `it has schema ${report.schema}, this errand knows up to ${folder.latestSchema()}`,
    );
  }
}

export async function restore(call: Call): Promise<void> {
  const { config } = configOf(call);
  const folder = await call.program.folder();
  const force = call.flags["force"] === true;
  const report = folder.restore(call.args[0]!, config.data, { force, version: VERSION, now: Date.now() });
  putReport(call, report);
  if (report.kept) call.output.words(`what was there before lies in ${report.kept}\n`);
  const hasKey = report.has_key || config.secret_key !== undefined || existsSync(join(config.data, KEY_FILE));
  if (!hasKey) call.output.words(withoutKey(`put it into ${config.data} before you start`));
}

function keyOf({ data, secret_key }: { data: string; secret_key?: string }): string {
  if (secret_key !== undefined) return secret_key;
  const path = join(data, KEY_FILE);
  if (!existsSync(path)) throw new ExitError(EXIT.refused, `${path}: no such file`, "leave out --with-key");
  return readFileSync(path, "utf8").trim();
}

function putReport(call: Call, report: BackupReport): void {
  if (call.flags["json"]) putJson(call.output, report);
  else {
    const { rows, bytes: size, ...rest } = report;
    const count = Object.values(rows).reduce((sum, one) => sum + one, 0);
    putRecord(call, { ...rest, size: bytes(size), rows: count });
  }
}
