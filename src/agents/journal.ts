import type { Lease } from "../jobs/job.ts";
import type { AnswerPart, TurnRow } from "./conversation-store.ts";
import type { ApprovalRow, Step, StepStore } from "./step-store.ts";

/**
 * What a turn has come to, on record and in memory: its steps that called tools, of every path, and what
 * was answered to calls that had to be approved.
 */
export class Journal {
  readonly #steps = new Map<string, Step[]>();
  readonly #verdicts = new Map<string, ApprovalRow>();

  private constructor(
    readonly turn: TurnRow,
    private readonly store: Pick<StepStore, "save">,
    private readonly lease: Lease | undefined,
    private readonly isStored?: Promise<boolean>,
  ) {}

  /** Of a turn that nothing is on record of; it comes there itself with `isStored`. */
  static fresh(store: Pick<StepStore, "save">, turn: TurnRow, isStored?: Promise<boolean>): Journal {
    return new Journal(turn, store, undefined, isStored);
  }

  /** Of a turn that may have begun before. */
  static async read(store: StepStore, turn: TurnRow, lease?: Lease): Promise<Journal> {
    const journal = new Journal(turn, store, lease);
    for (const { path, parts, reason, usage } of await store.steps(turn.id)) {
      journal.stepsOf(path).push({ parts, reason, usage });
    }
    if (turn.message_id === null) return journal; // it has never waited
    for (const approval of await store.approvals(turn.id)) {
      journal.#verdicts.set(`${approval.path}/${approval.tool_call_id}`, approval);
    }
    return journal;
  }

  /** The steps so far, to be added to. */
  stepsOf(path: string): Step[] {
    let steps = this.#steps.get(path);
    if (!steps) {
      steps = [];
      this.#steps.set(path, steps);
    }
    return steps;
  }

  /** What was answered to a call, where somebody was asked. */
  verdict(path: string, call_id: string): ApprovalRow | undefined {
    return this.#verdicts.get(`${path}/${call_id}`);
  }

  /** Durable when it resolves. Throws TurnLost. */
  async save(path: string, step: Step): Promise<void> {
    const seq = this.stepsOf(path).indexOf(step);
    const { id: turn_id } = this.turn;
    if (this.isStored && !(await this.isStored)) throw new TurnLost();
    if (!(await this.store.save({ turn_id, path, seq, ...step }, this.lease))) throw new TurnLost();
  }

  /** What the agent spoken to has said and called until now. */
  parts(): AnswerPart[] {
    return this.stepsOf("").flatMap(({ parts }) => parts);
  }
}

/** The turn has ended, or its job is held by someone else: what goes on here counts for nothing. */
export class TurnLost extends Error {
  constructor() {
    super("this turn is no longer worked here");
    this.name = "TurnLost";
  }
}
