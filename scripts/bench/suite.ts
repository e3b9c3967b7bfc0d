import type { Chart } from "./chart.ts";
import type { Figures } from "./figures.ts";

/**
 * `seconds` of each load, `repeat` rounds whose median counts, `connections` to load over, `sizes` of the history
 * to measure with. `draw` keeps charts for the folder that is asked for.
 */
export type Bench = {
  figures: Figures;
  seconds: number;
  repeat: number;
  connections: number[];
  sizes: number[];
  draw(file: string, title: string, charts: Chart[]): void;
};

export type Suite = { name: string; run(bench: Bench): Promise<void> };
