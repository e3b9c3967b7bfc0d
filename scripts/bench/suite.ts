import type { Figures } from "./figures.ts";

/** `seconds` of each load, `repeat` rounds whose median counts, `connections` to load over. */
export type Bench = { figures: Figures; seconds: number; repeat: number; connections: number[] };

export type Suite = { name: string; run(bench: Bench): Promise<void> };
