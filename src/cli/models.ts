import { type SettingName, settings } from "../config.ts";
import { createEgress } from "../egress/egress.ts";
import { systemClock } from "../lib/clock.ts";
import { createModels } from "../models/index.ts";
import { type ProviderState, probeProviders } from "../models/probe.ts";
import { type Call, configOf } from "./command.ts";
import { putJson, putList } from "./output.ts";

const MOST_SHOWN = 5;
const WORDS: Record<ProviderState["state"], string> = {
  ready: "ready",
  missing: "not reachable",
  found: "found, not configured",
  off: "-",
};

/** Where models come from, and which there are; servers on this machine are looked for. */
export async function listModels(call: Call): Promise<void> {
  const { config } = configOf(call);
  const egress = createEgress();
  try {
    const providers = await probeProviders(egress, config, (name) => settings[name as SettingName].env);
    const { default_model } = createModels({ config, egress, clock: systemClock });
    if (call.flags["json"]) return putJson(call.output, { default_model, providers });
    putList(
      call,
      providers,
      [
        { title: "PROVIDER", value: (one) => one.provider },
        { title: "STATE", value: (one) => WORDS[one.state] },
        { title: "SET", value: (one) => (one.state === "ready" ? "" : one.set) },
        { title: "MODELS", value: modelsShown },
      ],
      "",
    );
    call.output.words(`Agents that name no model use ${default_model}.\n`);
  } finally {
    egress.close();
  }
}

function modelsShown({ models, usual_model }: ProviderState): string {
  if (models.length === 0) return usual_model ? `${usual_model} (usual)` : "";
  const more = models.length > MOST_SHOWN ? ` and ${models.length - MOST_SHOWN} more` : "";
  return `${models.slice(0, MOST_SHOWN).join(", ")}${more}`;
}
