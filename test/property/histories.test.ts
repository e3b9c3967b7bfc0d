import { expect, test } from "bun:test";
import { playHistories } from "../../scripts/faults/histories.ts";
import { type Event, play } from "./histories.ts";

test("a run that is given up after three crashes is told of once, and counts as a run", async () => {
  const crash = (moment: "before" | "after") => ({ do: "crash" as const, writes: 1, moment });
  const history: Event[] = [
    { do: "start", workflow: 0, key: null },
    crash("after"),
    { do: "retry", execution: 0 },
    crash("before"),
    { do: "start", workflow: 0, key: null },
    { do: "call" },
  ];
  expect(await play(history)).toEqual([]);
});

// The short form of `scripts/faults/histories --histories 1000000`.
test("executions come to one end each in 300 histories of starts, waits, cancels, crashes and clocks put wrong", async () => {
  const report = await playHistories({
    machine: "executions",
    histories: 300,
    seed: Date.now() % 1_000_000,
  });
  expect(report.broken).toBeNull();
  expect(report.histories).toBe(300);
}, 120_000);

test("every event arrives or is given up by the book in 150 histories of a webhook", async () => {
  const report = await playHistories({
    machine: "deliveries",
    histories: 150,
    seed: Date.now() % 1_000_000,
  });
  expect(report.broken).toBeNull();
  expect(report.histories).toBe(150);
}, 120_000);
