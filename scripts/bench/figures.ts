import { readFileSync, writeFileSync } from "node:fs";
import { say } from "./measure.ts";

export type Figure = {
  metric: string;
  value: number;
  unit: string;
  /** What it is measured against in the same run, and the share of it. */
  yardstick?: { name: string; value: number };
  ratio?: number;
  target?: string;
  met?: boolean;
};

const rounded = (value: number) => Math.round(value * 1_000) / 1_000;

/** Prints figures as they come: rows for people, a line of JSON each for programs. */
export function createFigures({ json }: { json: boolean }) {
  const figures: Figure[] = [];
  return {
    record(figure: Figure): void {
      const { yardstick } = figure;
      const whole: Figure = {
        ...figure,
        value: rounded(figure.value),
        ...(yardstick
          ? {
              yardstick: { ...yardstick, value: rounded(yardstick.value) },
              ratio: rounded(figure.value / yardstick.value),
            }
          : {}),
      };
      figures.push(whole);
      console.log(json ? JSON.stringify(whole) : row(whole));
    },
    save: (file: string) => writeFileSync(file, `${JSON.stringify(figures, null, 2)}\n`),
    compare(file: string): void {
      const before = JSON.parse(readFileSync(file, "utf8")) as Figure[];
      say(`\nagainst ${file}:`);
      for (const figure of figures) {
        const old = before.find((other) => other.metric === figure.metric);
        if (!old) continue;
        const [now, then] = [figure.ratio ?? figure.value, old.ratio ?? old.value];
        say(`${figure.metric.padEnd(40)} ${then} -> ${now} (${Math.round((now / then) * 100)} %)`);
      }
    },
  };
}

export type Figures = ReturnType<typeof createFigures>;

function row({ metric, value, unit, yardstick, ratio, target, met }: Figure): string {
  return [
    metric.padEnd(40),
    `${value} ${unit}`.padStart(16),
    (yardstick ? `${ratio} of ${yardstick.value} (${yardstick.name})` : "").padEnd(40),
    (target ?? "").padEnd(14),
    met === undefined ? "" : met ? "met" : "MISSED",
  ]
    .join("  ")
    .trimEnd();
}
