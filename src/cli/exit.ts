/** What the caller of the program learns from its exit code; part of the interface, never renumbered. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  busy: 3,
  newer: 4,
  refused: 5,
  crash: 70,
  forced: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends a command with words for a person and a code for a script. */
export class ExitError extends Error {
  constructor(
    readonly code: ExitCode,
    message: string,
    readonly hint?: string,
  ) {
    super(message);
    this.name = "ExitError";
  }
}

export const usageError = (message: string, hint?: string) => new ExitError(EXIT.usage, message, hint);
