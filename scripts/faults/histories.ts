/**
 * Random histories of the two state machines. Executions: starts, waits, calls, cancels, retries, crashes at a
 * write, stops, and a clock that is put forward and back; every execution must come to one end, which is told
 * once and never changes, and every counter must be its recount. Deliveries: the same happens to a webhook that
 * is paused, resumed, rotated, put in order and into batches, before a receiver that fails, puts off and is gone;
 * every event must arrive or be given up by the book, none early, none too often, none under other bytes.
 *
 * A history that breaks this is cut down to the shortest that does. They are played in blocks, by as many
 * processes as the machine has cores: block n by the seed plus n, so that a broken one is found again by
 * `--histories 1000 --seed THAT`.
 */
import { availableParallelism } from "node:os";
import fc from "fast-check";
import { lives, playLife } from "../../test/property/deliveries.ts";
import { histories, play } from "../../test/property/histories.ts";
import { script } from "./lib/script.ts";

const MACHINES = {
  executions: {
    histories: histories.map((history) => ({ steps: history.length, history })),
    play: (history: unknown) => play(history as Parameters<typeof play>[0]),
  },
  deliveries: {
    histories: lives.map((history) => ({ steps: history.steps.length, history })),
    play: (history: unknown) => playLife(history as Parameters<typeof playLife>[0]),
  },
};
type Machine = keyof typeof MACHINES;

type Broken = { machine: Machine; seed: number; path: string; history: unknown; told: string };
type Played = { histories: number; steps: number };
export type Report = Record<Machine, Played> & { broken: Broken | null };

type Block = { machine: Machine; seed: number; histories: number };
type Answer = Played & { broken: Broken | null };

const BLOCK = 1_000;

/** Plays one after the other, up to the first that is broken. */
export async function playHistories({ machine, seed, histories }: Block): Promise<Answer> {
  const answer: Answer = { histories: 0, steps: 0, broken: null };
  const it = MACHINES[machine];
  const all: fc.Arbitrary<{ steps: number; history: unknown }> = it.histories;
  const property = fc.asyncProperty(all, async ({ steps, history }) => {
    const broken = await it.play(history);
    answer.histories++;
    answer.steps += steps;
    if (broken.length > 0) throw new Error(broken.join("; "));
  });
  const run = await fc.check(property, { numRuns: histories, seed });
  if (run.failed) {
    const path = run.counterexamplePath ?? "";
    const history = run.counterexample?.[0].history;
    answer.broken = { machine, seed: run.seed, path, history, told: String(run.errorInstance) };
  }
  return answer;
}

/** The same by several processes, in blocks. */
async function playApart(options: {
  counts: Record<Machine, number>;
  seed: number;
  processes: number;
  minutes: number;
  progress: ((text: string) => void) | undefined;
}): Promise<Report> {
  const report: Report = {
    executions: { histories: 0, steps: 0 },
    deliveries: { histories: 0, steps: 0 },
    broken: null,
  };
  const blocks: Block[] = Object.entries(options.counts).flatMap(([machine, count]) =>
    Array.from({ length: Math.ceil(count / BLOCK) }, (_, n) => ({
      machine: machine as Machine,
      seed: options.seed + n,
      histories: Math.min(BLOCK, count - n * BLOCK),
    })),
  );
  // What stops early has seen something of each.
  blocks.sort((a, b) => a.seed - b.seed);
  const until = options.minutes > 0 ? performance.now() + options.minutes * 60_000 : Number.POSITIVE_INFINITY;
  const next = () => (report.broken || performance.now() > until ? undefined : blocks.shift());
  const work = () =>
    new Promise<void>((resolve, reject) => {
      let block = next();
      const child = Bun.spawn([process.execPath, import.meta.filename, "--player"], {
        stdout: "inherit",
        stderr: "inherit",
        ipc(message, self) {
          const { histories, steps, broken } = message as Answer;
          const played = report[block!.machine];
          played.histories += histories;
          played.steps += steps;
          report.broken ??= broken;
          options.progress?.(
            `${report.executions.histories} of executions, ${report.deliveries.histories} of deliveries`,
          );
          block = next();
          if (block) self.send(block);
          else self.kill();
        },
        onExit: (_, code, signal) =>
          signal === "SIGTERM" ? resolve() : reject(new Error(`a player ended with ${code ?? signal}`)),
      });
      if (block) child.send(block);
      else child.kill();
    });
  await Promise.all(Array.from({ length: options.processes }, work));
  return report;
}

export const isClean = ({ broken }: Pick<Report, "broken">): boolean => broken === null;

if (import.meta.main && process.argv.includes("--player")) {
  process.on("message", async (block: Block) => process.send!(await playHistories(block)));
  process.on("disconnect", () => process.exit());
} else if (import.meta.main) {
  await script({
    name: "histories",
    about: "Plays random histories of executions and of deliveries and checks what must hold at their end.",
    numbers: {
      histories: { help: "how many of executions", usually: 1_000 },
      deliveries: { help: "how many of deliveries", usually: 1_000 },
      processes: { help: "how many play at a time", usually: availableParallelism() },
      minutes: { help: "no more are begun after that; 0 is no limit", usually: 0 },
    },
    run: ({ number }, progress) =>
      playApart({
        counts: { executions: number("histories"), deliveries: number("deliveries") },
        seed: number("seed"),
        processes: number("processes"),
        minutes: number("minutes"),
        progress,
      }),
    isClean,
  });
}
