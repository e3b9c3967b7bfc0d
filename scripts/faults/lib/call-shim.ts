import { writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { buildShim } from "./disk-shim.ts";

// As in call-shim.c.
const KINDS = { write: 1, sync: 2, truncate: 4 };
const ARMED = 0;
const KINDS_AT = 1;
const FROM = 2;
const TO = 3;
const REFUSAL = 4;
const COUNT = 5;
const MET = 6;

export type Fault = {
  name: string;
  /** Without it the program dies. */
  refusal?: "EIO" | "ENOSPC";
  /** At which calls. */
  kinds: (keyof typeof KINDS)[];
  /** So many are met one after the other. */
  in_a_row: number;
};

/** Faults of the program that is started with `env`: at the n-th call from the moment it is armed. */
export function callFaults(folder: string) {
  const file = join(folder, "calls");
  writeFileSync(file, Buffer.alloc(4096));
  const bytes = Bun.mmap(file);
  const control = new Uint32Array(bytes.buffer, bytes.byteOffset, 8);
  return {
    env: { LD_PRELOAD: buildShim(folder, "call-shim"), CALL_FILE: file },
    arm(fault: Fault, at: number): void {
      control[KINDS_AT] = fault.kinds.reduce((all, kind) => all | KINDS[kind], 0);
      control[FROM] = at;
      control[TO] = at + fault.in_a_row - 1;
      control[REFUSAL] = fault.refusal === undefined ? 0 : constants.errno[fault.refusal];
      control[COUNT] = 0;
      control[MET] = 0;
      control[ARMED] = 1;
    },
    disarm(): void {
      control[ARMED] = 0;
    },
    wasMet: (): boolean => control[MET]! > 0,
  };
}
