import { parseArgs } from "node:util";

type Given = Record<string, string | boolean | undefined>;

/**
 * What the fault scripts have in common: `--help`, `--json`, a `--seed` that is printed, progress on standard
 * error, and the exit code: 0 when all was well, 1 when something was not, 77 where it cannot run.
 */
export async function script<Report extends object>(plan: {
  name: string;
  /** What it does, in a sentence or two. */
  about: string;
  /** Options with a number, and what each is; a fallback for each. */
  numbers?: Record<string, { help: string; usually: number }>;
  /** Options with a text. */
  texts?: Record<string, string>;
  /** Options that are there or not. */
  flags?: Record<string, string>;
  /** Why it cannot run here; undefined when it can. */
  missing?: (given: Given) => string | undefined;
  run(
    given: {
      number(name: string): number;
      text(name: string): string | undefined;
      flag(name: string): boolean;
    },
    progress: ((text: string) => void) | undefined,
  ): Promise<Report>;
  isClean(report: Report): boolean;
}): Promise<never> {
  const { name, numbers = {}, texts = {}, flags = {} } = plan;
  const seeded: Record<string, { help: string; usually: number }> = {
    ...numbers,
    seed: { help: "the same seed gives the same run", usually: 1 },
  };
  let values: Given;
  try {
    values = parseArgs({
      options: {
        ...Object.fromEntries(
          Object.keys({ ...seeded, ...texts }).map((each) => [each, { type: "string" as const }]),
        ),
        ...Object.fromEntries(Object.keys(flags).map((each) => [each, { type: "boolean" as const }])),
        json: { type: "boolean" },
        help: { type: "boolean" },
      },
    }).values as Given;
    for (const each of Object.keys(seeded)) numberOf(values[each], each);
  } catch (error) {
    console.error(`error: ${(error as Error).message}`);
    process.exit(2);
  }
  if (values["help"]) {
    const lines = [
      ...Object.entries(seeded).map(([each, { help, usually }]) => [`--${each} ${usually}`, help]),
      ...Object.entries(texts).map(([each, help]) => [`--${each} ...`, help]),
      ...Object.entries({ ...flags, json: "print the report as JSON" }).map(([each, help]) => [
        `--${each}`,
        help,
      ]),
    ];
    console.log(`usage: scripts/faults/${name} [options]\n\n${plan.about}\n`);
    for (const [option, help] of lines) console.log(`  ${option!.padEnd(20)} ${help}`);
    process.exit(0);
  }
  const reason = plan.missing?.(values);
  if (reason !== undefined) {
    console.log(values["json"] ? JSON.stringify({ skipped: reason }) : `skipped: ${reason}`);
    process.exit(77);
  }
  const number = (each: string) => numberOf(values[each], each) ?? seeded[each]!.usually;
  const given = {
    number,
    text: (each: string) => values[each] as string | undefined,
    flag: (each: string) => values[each] === true,
  };
  const progress = values["json"]
    ? undefined
    : (text: string) => void process.stderr.write(`\r\x1b[K${text}`);
  const report = { seed: number("seed"), ...(await plan.run(given, progress)) };
  if (progress) progress("");
  if (values["json"]) console.log(JSON.stringify(report));
  else for (const [key, value] of Object.entries(report)) console.log(`${key.padEnd(20)} ${shown(value)}`);
  process.exit(plan.isClean(report) ? 0 : 1);
}

const shown = (value: unknown): string =>
  typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);

function numberOf(value: string | boolean | undefined, name: string): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,12}$/.test(String(value))) throw new Error(`--${name} takes a number`);
  return Number(value);
}
