/** Webhooks that hear of something else cost a run nothing; those that hear of it, a delivery each. */
import { hookOf, NEVER, subscribe, withErrand } from "../../measure.ts";
import type { Suite } from "../../suite.ts";
import { fanOut } from "../deliver.ts";
import { ACCEPTED, accepts, type Measured, rounds, secondsOf, tellAll } from "./measured.ts";

const LISTENERS = [1, 100, 1_000];
const TO_ALL = "deliveries to all that hear";

async function beside(count: number, seconds: number): Promise<Measured> {
  const accepted = await withErrand(async (errand, key) => {
    const url = await hookOf(errand, key);
    for (let n = 0; n < count; n++) await subscribe(errand, "http://127.0.0.1:9/", NEVER);
    return accepts(errand, url, seconds);
  });
  return { ...accepted, [TO_ALL]: await fanOut(seconds, count) };
}

export const growthByWebhooks: Suite = {
  name: "growth-webhooks",
  async run(bench) {
    const measured = await rounds(bench, LISTENERS, "webhooks", (count) => beside(count, secondsOf(bench)));
    const other = tellAll(bench, ACCEPTED, LISTENERS, "webhooks of another event", measured);
    const all = tellAll(bench, { [TO_ALL]: { unit: "/s" } }, LISTENERS, "webhooks", measured);
    const title = "The main figures by how many outgoing webhooks there are";
    bench.draw("growth-webhooks", title, [...other, ...all]);
  },
};
