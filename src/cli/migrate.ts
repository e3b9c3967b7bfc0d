import { VERSION } from "../version.ts";
import { type Call, configOf } from "./command.ts";
import { putJson, putList } from "./output.ts";

export async function migrateStatus(call: Call): Promise<void> {
  const { config } = configOf(call);
  const steps = (await call.program.folder()).migrations(config.data);
  putList(
    call,
    steps,
    [
      { title: "SCHEMA", value: (step) => step.version },
      { title: "STEP", value: (step) => step.name },
      { title: "APPLIED", value: (step) => step.applied_at ?? "pending" },
    ],
    "this errand has no migrations",
  );
}

export async function migrateUp(call: Call): Promise<void> {
  const { config } = configOf(call);
  const { from, to } = (await call.program.folder()).migrate(config.data, {
    version: VERSION,
    now: Date.now(),
  });
  if (call.flags["json"]) putJson(call.output, { from, to });
  else call.output.data(from === to ? `schema ${to}, nothing to do\n` : `schema ${from} -> ${to}\n`);
}
