import type { Caller } from "../keys/schema.ts";
import { fit, padTo, printable } from "../lib/terminal.ts";
import type { Services } from "../services.ts";
import type { Call } from "./command.ts";
import { EXIT, ExitError } from "./exit.ts";

type Execution = Awaited<ReturnType<Services["executions"]["get"]>>;
type Step = Execution["steps"][number];

const LOOK_MS = 100;
// A long run is looked at less often, so that looking is never most of the work.
const SHARE = 10;

export const hasEnded = ({ completed_at }: Pick<Execution, "completed_at">): boolean => completed_at !== null;

/**
 * Waits for a run to end and tells of each step as it does, in words. It looks into the data folder, so it
 * tells as much of a run that a server works on as of one of this process. Ctrl-C stops looking.
 */
export async function follow(
  call: Call,
  { executions, clock }: Services,
  caller: Caller,
  id: string,
  { quiet = false } = {},
): Promise<Execution> {
  const told = new Map<string, string>();
  const interrupted = untilInterrupt();
  const tell = (text: string) => {
    if (!quiet) call.output.words(text);
  };
  try {
    for (;;) {
      const begun = performance.now();
      const execution = await executions.get(caller, id);
      for (const line of news(execution, told)) tell(line);
      if (hasEnded(execution)) {
        call.output.words(summary(execution));
        return execution;
      }
      const pause = Math.max(LOOK_MS, (performance.now() - begun) * SHARE);
      const next = new Promise<false>((resolve) => clock.after(pause, () => resolve(false)));
      if (await Promise.race([next, interrupted.pressed])) {
        const message = `stopped following; the run ${id} is ${execution.status}`;
        throw new ExitError(EXIT.forced, message, `see how it goes on: errand runs logs ${id} --follow`);
      }
    }
  } finally {
    interrupted.done();
  }
}

/** The lines for what changed since they were last asked for. */
export function news(execution: Execution, told = new Map<string, string>()): string[] {
  const from = Date.parse(execution.started_at ?? execution.created_at);
  const lines: string[] = [];
  for (const step of execution.steps) {
    const now = `${step.status} ${step.attempts}`;
    if (told.get(step.position) === now) continue;
    told.set(step.position, now);
    lines.push(lineOf(step, from));
  }
  return lines;
}

const MARKS: Record<string, string> = {
  success: "✓",
  failed: "✗",
  skipped: "–",
  retrying: "↻",
  started: "…",
};

function lineOf(step: Step, from: number): string {
  const started = Date.parse(step.started_at);
  const ended = step.completed_at === null ? undefined : Date.parse(step.completed_at);
  const at = spoken((ended ?? started) - from).padStart(9);
  const name = padTo(fit(printable(step.name), 28), 28);
  const took = ended === undefined ? "" : spoken(ended - started);
  const attempts = step.attempts > 1 ? `, attempt ${step.attempts}` : "";
  const why = step.error === null ? "" : `  ${printable(messageOf(step.error))}`;
  const word = step.status === "success" ? took : `${step.status}${took === "" ? "" : ` after ${took}`}`;
  return `${at}  ${MARKS[step.status] ?? " "} ${name}  ${padTo(step.node_type_name, 20)}  ${word}${attempts}${why}\n`;
}

export function summary(execution: Execution): string {
  const { status, steps_completed, duration_seconds, credits_used, error } = execution;
  const took = duration_seconds === null ? "" : ` in ${spoken(duration_seconds * 1_000)}`;
  const credits = credits_used > 0 ? `, ${credits_used} credits` : "";
  const why = error === null ? "" : `: ${printable(messageOf(error))}`;
  const steps = steps_completed === 1 ? "1 step" : `${steps_completed} steps`;
  return `${status}${took}, ${steps}${credits}${why}\n`;
}

function messageOf(error: unknown): string {
  const { code, message, node } = error as { code?: string; message?: string; node?: string | null };
  return `${node ? `${node}: ` : ""}${code ?? "ERROR"} ${message ?? ""}`.trim();
}

function spoken(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return `${minutes} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

function untilInterrupt() {
  let press: (pressed: true) => void = () => {};
  const pressed = new Promise<true>((resolve) => {
    press = resolve;
  });
  const onSignal = () => press(true);
  process.once("SIGINT", onSignal);
  return { pressed, done: () => void process.removeListener("SIGINT", onSignal) };
}
