import type { Clock } from "../lib/clock.ts";
import { AppError } from "../lib/errors.ts";

/** How long a disk that refuses is left alone before it is asked again. */
export const STORE_RETRY_MS = 1_000;

/**
 * Stores the result of work that cannot be taken back: while the disk refuses, again each second, so that
 * an effect that has happened is not made to happen again for want of a row. Ends with the refusal when
 * `isAborted` says so.
 */
export async function persist<T>(
  clock: Clock,
  isAborted: () => boolean,
  store: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await store();
    } catch (error) {
      const mayPass = error instanceof AppError && error.code === "unavailable";
      if (!mayPass || isAborted()) throw error;
      await new Promise<void>((resolve) => clock.after(STORE_RETRY_MS, resolve));
    }
  }
}
