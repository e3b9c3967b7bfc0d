/**
 * Random histories of executions: starts, waits, calls, cancels, retries, crashes at a write, stops, and a clock
 * that is put forward and back. Every execution must come to one end, which is told once and never changes, and
 * every counter must be its recount. A history that breaks this is cut down to the shortest that does.
 */
import fc from "fast-check";
import { type Event, histories, play } from "../../test/property/histories.ts";
import { script } from "./lib/script.ts";

export type Report = {
  histories: number;
  events: number;
  broken: { seed: number; path: string; history: Event[]; told: string } | null;
};

export async function playHistories(options: {
  histories: number;
  seed: number;
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const report: Report = { histories: 0, events: 0, broken: null };
  const property = fc.asyncProperty(histories, async (history) => {
    const broken = await play(history);
    report.histories++;
    report.events += history.length;
    if (report.histories % 20 === 0) options.progress?.(`${report.histories} histories`);
    if (broken.length > 0) throw new Error(broken.join("; "));
  });
  const run = await fc.check(property, { numRuns: options.histories, seed: options.seed });
  if (run.failed) {
    const [history = []] = run.counterexample ?? [];
    report.broken = {
      seed: run.seed,
      path: run.counterexamplePath ?? "",
      history,
      told: String(run.errorInstance),
    };
  }
  return report;
}

export const isClean = ({ broken }: Report): boolean => broken === null;

if (import.meta.main) {
  await script({
    name: "histories",
    about: "Plays random histories of executions and checks what must hold at their end.",
    numbers: { histories: { help: "how many", usually: 1_000 } },
    run: ({ number }, progress) =>
      playHistories({ histories: number("histories"), seed: number("seed"), progress }),
    isClean,
  });
}
