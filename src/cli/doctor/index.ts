import { table } from "../../lib/table.ts";
import { type Call, configOf } from "../command.ts";
import { EXIT, ExitError } from "../exit.ts";
import { putJson } from "../output.ts";
import { type Check, type Finding, fail, type Patient } from "./check.ts";
import { clock } from "./clock.ts";
import { dataFolder } from "./data-folder.ts";
import { database } from "./database.ts";
import { disk } from "./disk.ts";
import { givenUp } from "./given-up.ts";
import { keyFile } from "./key-file.ts";
import { lock } from "./lock.ts";
import { logSize } from "./log-size.ts";
import { openFiles } from "./open-files.ts";
import { port } from "./port.ts";
import { publicUrl } from "./public-url.ts";
import { schema } from "./schema.ts";
import { targets } from "./targets.ts";

/** Every check, in the order they are told: one file each, one line here. */
export const checks: Check[] = [
  dataFolder,
  disk,
  database,
  logSize,
  schema,
  keyFile,
  lock,
  port,
  clock,
  openFiles,
  publicUrl,
  targets,
  givenUp,
];

export type Diagnosis = Finding & { check: string };

/** A check that cannot look is a finding too. */
export async function diagnose(patient: Patient): Promise<Diagnosis[]> {
  const found: Diagnosis[] = [];
  for (const { name, run } of checks) {
    const finding = await Promise.resolve()
      .then(() => run(patient))
      .catch((error: Error) => fail(error.message));
    found.push({ check: name, ...finding });
  }
  return found;
}

/** Looks the installation over, beside a running server or without one. Exit code 5 when a check fails. */
export async function doctor(call: Call): Promise<void> {
  const { output, flags } = call;
  const { config, origins } = configOf(call);
  const folder = await call.program.folder();
  const patient: Patient = {
    config,
    origins,
    folder,
    ...look(() => folder.inspect(config.data)),
    holder: folder.holder(config.data),
    now: Date.now(),
  };
  const all = await diagnose(patient);
  const shown = flags["quiet"] ? all.filter((one) => one.level !== "ok") : all;
  if (flags["json"]) putJson(output, shown);
  else if (shown.length > 0) {
    const columns = [
      { title: "CHECK", value: (one: Diagnosis) => one.check },
      { title: "", value: (one: Diagnosis) => one.level },
      { title: "FOUND", value: (one: Diagnosis) => one.message },
    ];
    output.data(table(columns, shown));
    for (const { hint, check } of shown) if (hint) output.words(`hint: ${check}: ${hint}\n`);
  }
  const failed = all.filter((one) => one.level === "fail").length;
  if (failed > 0) throw new ExitError(EXIT.refused, `${failed} of ${all.length} checks failed`);
}

function look(inspect: () => Patient["database"]): Pick<Patient, "database" | "unreadable"> {
  try {
    return { database: inspect() };
  } catch (error) {
    return { database: undefined, unreadable: (error as Error).message };
  }
}
