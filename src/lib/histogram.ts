export const HOUR_MS = 3_600_000;

/** The first moment of the hour. */
export const hourOf = (at: number): number => at - (at % HOUR_MS);

// Half an octave: what is read back is off by a fifth at most.
const STEPS_PER_OCTAVE = 2;
const SLOWEST = 32;

/** What a time of this many ms is counted under; -1 for none. */
export const speedOf = (ms: number | null): number =>
  ms === null ? -1 : Math.min(SLOWEST, Math.round(STEPS_PER_OCTAVE * Math.log2(Math.max(1, ms))));

/** The time in ms that the count stands for. */
export const msOfSpeed = (speed: number): number => Math.round(2 ** (speed / STEPS_PER_OCTAVE));
