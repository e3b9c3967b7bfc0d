import { Backlog } from "./backlog.ts";
import type { Lane } from "./job.ts";
import { Queue } from "./queue.ts";
import { Turnstile } from "./turnstile.ts";

/** Most jobs in flight of each lane. */
export type Capacity = Record<Lane, number>;

export const CAPACITY: Capacity = { runs: 512, turns: 128, deliveries: 512, timers: 16 };

/** For a process that only puts jobs down for a server to find: the command line. */
export const NO_CAPACITY: Capacity = { runs: 0, turns: 0, deliveries: 0, timers: 0 };

// The rest of a crowded lane is for keys whose jobs end soon, as far as is known.
const UNPROVEN_SHARE = 0.75;

export type LaneState = {
  name: Lane;
  inFlight: number;
  /** Most in flight of one key; its last registered kind gives it. */
  cap: (key: string) => number;
  perKey: Map<string, number>;
  /** Keys whose jobs wait for a slot, in memory or in the store. */
  backlog: Backlog;
  /** Those of them that may have jobs in the store; the ones in memory are older. */
  stored: Set<string>;
  queue: Queue;
  /** Jobs on their way into a slot. */
  turnstile: Turnstile;
  pumpsSoon: boolean;
  claiming: boolean;
  /** Keys that got a job while a claim was under way: it may not have seen it. */
  fresh: Set<string>;
  /** Until when what fell due is known. */
  swept: number;
  /** When all that is due was last looked for, told of or not. */
  searched: number;
  sweeping: boolean;
  cancelTimer?: () => void;
  timerAt: number;
  isProven: (key: string) => boolean;
  /** Jobs that gave their slot away. */
  aside: number;
  /** Jobs that only wait for their record, without a slot. */
  leaving: number;
  cancelCrowdLook?: () => void;
};

export const newLane = (name: Lane): LaneState => ({
  name,
  inFlight: 0,
  cap: () => 0,
  perKey: new Map(),
  backlog: new Backlog(),
  stored: new Set(),
  queue: new Queue(),
  turnstile: new Turnstile(),
  pumpsSoon: false,
  claiming: false,
  fresh: new Set(),
  swept: 0,
  searched: 0,
  sweeping: false,
  isProven: () => true,
  aside: 0,
  leaving: 0,
  timerAt: Number.POSITIVE_INFINITY,
});

export function reserve(lane: LaneState, key: string, count: number): void {
  lane.inFlight += count;
  lane.perKey.set(key, (lane.perKey.get(key) ?? 0) + count);
}

export const room = (lane: LaneState, key: string): number => lane.cap(key) - (lane.perKey.get(key) ?? 0);

/** Slots that are free to keys that are proven, or to all. */
export const freeSlots = (lane: LaneState, most: number, isProven: boolean): number =>
  Math.floor(most * (isProven ? 1 : UNPROVEN_SHARE)) - lane.inFlight;
