/**
 * Random histories of executions: starts, waits, calls, cancels, retries, crashes at a write, stops, and a clock
 * that is put forward and back. Every execution must come to one end, which is told once and never changes, and
 * every counter must be its recount. A history that breaks this is cut down to the shortest that does.
 *
 * They are played in blocks, by as many processes as the machine has cores: block n by the seed plus n, so that a
 * broken one is found again by `--histories 1000 --seed THAT`.
 */
import { availableParallelism } from "node:os";
import fc from "fast-check";
import { type Event, histories, play } from "../../test/property/histories.ts";
import { script } from "./lib/script.ts";

export type Report = {
  histories: number;
  events: number;
  broken: { seed: number; path: string; history: Event[]; told: string } | null;
};

type Block = { seed: number; histories: number };

const BLOCK = 1_000;

/** Plays one after the other, up to the first that is broken. */
export async function playHistories(block: Block): Promise<Report> {
  const report: Report = { histories: 0, events: 0, broken: null };
  const property = fc.asyncProperty(histories, async (history) => {
    const broken = await play(history);
    report.histories++;
    report.events += history.length;
    if (broken.length > 0) throw new Error(broken.join("; "));
  });
  const run = await fc.check(property, { numRuns: block.histories, seed: block.seed });
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

/** The same by several processes, in blocks. */
async function playApart(options: {
  histories: number;
  seed: number;
  processes: number;
  progress: ((text: string) => void) | undefined;
}): Promise<Report> {
  const total: Report = { histories: 0, events: 0, broken: null };
  let begun = 0;
  const next = (): Block | undefined => {
    const left = options.histories - begun * BLOCK;
    if (left <= 0 || total.broken) return undefined;
    return { seed: options.seed + begun++, histories: Math.min(left, BLOCK) };
  };
  const work = () =>
    new Promise<void>((resolve, reject) => {
      const child = Bun.spawn([process.execPath, import.meta.filename, "--player"], {
        stdout: "inherit",
        stderr: "inherit",
        ipc(message, self) {
          const { histories, events, broken } = message as Report;
          total.histories += histories;
          total.events += events;
          total.broken ??= broken;
          options.progress?.(`${total.histories} histories, ${total.events} events`);
          const block = next();
          if (block) self.send(block);
          else self.kill();
        },
        onExit: (_, code, signal) =>
          signal === "SIGTERM" ? resolve() : reject(new Error(`a player ended with ${code ?? signal}`)),
      });
      const block = next();
      if (block) child.send(block);
      else child.kill();
    });
  await Promise.all(Array.from({ length: options.processes }, work));
  return total;
}

export const isClean = ({ broken }: Report): boolean => broken === null;

if (import.meta.main && process.argv.includes("--player")) {
  process.on("message", async (block: Block) => process.send!(await playHistories(block)));
} else if (import.meta.main) {
  await script({
    name: "histories",
    about: "Plays random histories of executions and checks what must hold at their end.",
    numbers: {
      histories: { help: "how many", usually: 1_000 },
      processes: { help: "how many play at a time", usually: availableParallelism() },
    },
    run: ({ number }, progress) =>
      playApart({
        histories: number("histories"),
        seed: number("seed"),
        processes: number("processes"),
        progress,
      }),
    isClean,
  });
}
