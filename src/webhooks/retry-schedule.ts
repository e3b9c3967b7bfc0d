const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const LONGEST = 24 * HOUR;
const MOST_JITTER = 15 * MINUTE;

/** Interface 6.3.1: the wait after the first failed attempt, the second, and so on. */
export const RETRY_SCHEDULE = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, LONGEST] as const;

/** Interface 2.5. `backoff_multiplier` replaces the schedule by 1 min x m^(n-1), at most 24 h. */
export type RetryPolicy = { max_retries?: number; backoff_multiplier?: number };

// Six attempts in all, as interface 6.3.2 and section 8 say; max_retries 6 brings the 24 h step in.
const DEFAULT_RETRIES = 5;

export const attemptsMax = (policy: RetryPolicy | null): number =>
  1 + (policy?.max_retries ?? DEFAULT_RETRIES);

/** The published wait in ms after `attempts` failed attempts (1 or more), before jitter. */
export function baseDelay(attempts: number, policy: RetryPolicy | null): number {
  const multiplier = policy?.backoff_multiplier;
  if (multiplier !== undefined) return Math.min(MINUTE * multiplier ** (attempts - 1), LONGEST);
  return RETRY_SCHEDULE[Math.min(attempts, RETRY_SCHEDULE.length) - 1] ?? LONGEST;
}

/**
 * The wait in ms before the next attempt. Jitter only adds (0-10 %, at most 15 min), so that no retry
 * comes before its published time; a receiver's Retry-After only lengthens, to 24 h at most.
 */
export function retryDelay(options: {
  attempts: number;
  policy: RetryPolicy | null;
  retryAfterMs?: number;
  /** Uniform in [0, 1). */
  random: () => number;
}): number {
  const base = baseDelay(options.attempts, options.policy);
  const jittered = base + Math.min(base * 0.1 * options.random(), MOST_JITTER);
  return Math.round(Math.max(jittered, Math.min(options.retryAfterMs ?? 0, LONGEST)));
}

/** Reads Retry-After (RFC 9110: seconds or a date) as ms from `now`; undefined when it says nothing. */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1_000;
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) || at <= now ? undefined : at - now;
}
