import { isObject, type Json } from "../lib/json.ts";
import type { Node } from "../workflows/schema.ts";

/** `input_config._options`, which every node takes (design 6); validated when the workflow was saved. */
export type StepOptions = {
  run_if?: Json;
  retry?: { max_attempts?: number; delay_seconds?: number; backoff_multiplier?: number };
  timeout_seconds?: number;
  /** route: `error_nodes` run, with `error` to be named, and the last one's output stands for this one's. */
  on_error?: "stop" | "continue" | "default" | "route";
  error_nodes?: Node[];
  default_output?: Json;
  pinned_output?: Json;
  /** A step with an effect that was under way when the program died: do it again, or fail. */
  on_unknown?: "retry" | "fail";
};

export type Retry = { max_attempts: number; delay_seconds: number; backoff_multiplier: number };

/** `isBare`: there are no options. */
type Split = { options: StepOptions; config: Record<string, Json>; isBare: boolean };

// Definitions are kept by content and never changed, and every run of one asks for this of every node.
const splits = new WeakMap<object, Split>();

/** `input_config` apart from its `_options`; nobody may change either. */
export function splitOptions(input_config: Record<string, unknown>): Split {
  let split = splits.get(input_config);
  if (!split) {
    const { _options, ...config } = input_config;
    split = {
      options: isObject(_options) ? (_options as StepOptions) : {},
      isBare: _options === undefined,
      config: config as Record<string, Json>,
    };
    splits.set(input_config, split);
  }
  return split;
}

const NO_RETRY: Retry = { max_attempts: 1, delay_seconds: 1, backoff_multiplier: 2 };

/** The node type's own retries under what the workflow says. */
export const retryPolicy = (options: StepOptions, ofType: Retry | undefined): Retry => ({
  ...(ofType ?? NO_RETRY),
  ...options.retry,
});

const LONGEST_DELAY_MS = 24 * 3_600_000;

/** How long to wait after attempt `attempt` failed, in milliseconds. */
export const retryDelay = (retry: Retry, attempt: number): number =>
  Math.min(retry.delay_seconds * 1_000 * retry.backoff_multiplier ** (attempt - 1), LONGEST_DELAY_MS);
