import { describe, expect, test } from "bun:test";
import { Elysia } from "elysia";
import fc from "fast-check";
import { createExecutionLists } from "../../src/executions/lists.ts";
import { executionRoutes } from "../../src/executions/routes.ts";
import { STATES } from "../../src/executions/schema.ts";
import { bodies, edge } from "../../src/http/edge.ts";
import { newId } from "../../src/lib/ids.ts";
import { createLog } from "../../src/lib/log.ts";
import { sqliteExecutionLists } from "../../src/storage/sqlite/execution-lists.ts";
import { CALLER, setVariables, world } from "./setup.ts";

type Made = { at: number; state?: string; source?: string; workflow_id?: string; project_id?: string };

/** Executions as they lie on disk, and the addresses that list them. */
async function lists() {
  const engine = world();
  const { storage, clock, executions, workflows, workflow } = engine;
  const { id: mine } = await workflow({ nodes: [setVariables("a", { n: 1 })] });
  const executionLists = createExecutionLists({
    store: sqliteExecutionLists(storage),
    target: workflows.target,
  });
  const log = createLog({ level: "error", format: "json", clock, write: () => {}, terminal: false });
  const callers: Record<string, typeof CALLER> = {
    mine: CALLER,
    other: { ...CALLER, project_id: "q" },
  };
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate: async (token: string) => callers[token] }))
    .use(bodies)
    .use(executionRoutes({ executions, executionLists }));

  function put({
    at,
    state = "success",
    source = "api",
    workflow_id = mine,
    project_id = "p",
  }: Made): string {
    const id = newId();
    storage.reader.run(
      `INSERT INTO executions (id, workflow_id, workspace_id, project_id, definition_hash, state, source, metadata,
         input, hop, external_calls, tokens, steps_completed, created_at, ended_at)
       VALUES (?, ?, 'w', ?, 'h', ?, ?, '{}', '{}', 0, 0, 0, 0, ?, ?)`,
      id,
      workflow_id,
      project_id,
      state,
      source,
      at,
      ["queued", "running", "waiting"].includes(state) ? null : at,
    );
    return id;
  }
  async function get(path: string, key = "mine") {
    const response = await app.handle(
      new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${key}` } }),
    );
    const body = await response.json();
    const next = response.headers.get("link")?.match(/<([^>]+)>; rel="next"/)?.[1];
    const total = response.headers.get("x-total-count");
    const ids: string[] = Array.isArray(body) ? body.map(({ id }) => id) : [];
    return { status: response.status, body, ids, next, total };
  }
  /** Every page from the first on. */
  async function walk(path: string): Promise<string[]> {
    const ids: string[] = [];
    for (let at: string | undefined = path; at; ) {
      const page: Awaited<ReturnType<typeof get>> = await get(at);
      ids.push(...page.ids);
      at = page.next;
    }
    return ids;
  }
  return { ...engine, mine, put, get, walk };
}

const DAY = 86_400_000;
const NOON = Date.UTC(2026, 0, 1, 12);

describe("a list of executions", () => {
  test("has all states, newest first, with those of the same moment in one order", async () => {
    const { mine, put, get, walk } = await lists();
    const made = [3, 1, 2, 2, 2].map((at, index) => ({
      at,
      id: put({ at, state: STATES[index % STATES.length]! }),
    }));
    const expected = made.sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1)).map(({ id }) => id);
    const whole = await get(`/workflows/${mine}/executions`);
    expect([whole.ids, whole.total, whole.next]).toEqual([expected, "5", undefined]);
    expect(await walk(`/workflows/${mine}/executions?limit=2`)).toEqual(expected);
    expect((await get(`/workflows/${mine}/executions?limit=2&offset=3`)).ids).toEqual(expected.slice(3));
  });

  test("is filtered by state, time and source, and so is its total", async () => {
    const { mine, put, get } = await lists();
    const old = put({ at: NOON - DAY, state: "failed", source: "webhook" });
    const failed = put({ at: NOON, state: "failed" });
    const good = put({ at: NOON + 1, source: "webhook" });
    const asked = async (query: string) => {
      const { ids, total } = await get(`/workflows/${mine}/executions?${query}`);
      return [ids, total];
    };
    expect(await asked("status=failed")).toEqual([[failed, old], "2"]);
    expect(await asked("trigger_source=webhook")).toEqual([[good, old], "2"]);
    expect(await asked("since=2026-01-01T12:00:00.001Z")).toEqual([[good], "1"]);
    expect(await asked("until=2026-01-01T12:00:00Z")).toEqual([[failed, old], "2"]);
    expect(await asked("since=2026-01-01&until=2026-01-02&status=failed")).toEqual([[failed], "1"]);
    expect(await asked("trigger_source=nobody")).toEqual([[], "0"]);
  });

  test("of the project has those of every workflow, deleted ones too, and of no other project", async () => {
    const { mine, put, get } = await lists();
    const a = put({ at: 1 });
    const b = put({ at: 2, workflow_id: newId() });
    put({ at: 3, workflow_id: newId(), project_id: "q" });
    expect((await get("/executions")).ids).toEqual([b, a]);
    expect((await get(`/executions?workflow_id=${mine}&workspace_id=w`)).ids).toEqual([a]);
  });

  test("refuses what it cannot read, and other people's", async () => {
    const { mine, get } = await lists();
    for (const query of [
      "limit=0",
      "offset=10001",
      "status=done",
      "since=yesterday",
      "cursor=x",
      "cursor=1_';--",
    ]) {
      expect([query, (await get(`/executions?${query}`)).status]).toEqual([query, 400]);
    }
    expect((await get("/executions?workspace_id=x")).status).toBe(403);
    expect((await get("/executions?project_id=q")).status).toBe(403);
    expect((await get(`/executions?workflow_id=${mine}`, "other")).status).toBe(403);
    expect((await get(`/workflows/${mine}/executions`, "other")).status).toBe(403);
    expect((await get(`/executions?workflow_id=${newId()}`)).status).toBe(404);
    expect((await get("/workflows/none/executions")).status).toBe(404);
  });

  test("by a source that few have comes in short pages that lead on, and none is missed", async () => {
    const { mine, put, storage, get, walk } = await lists();
    const rare = [put({ at: 1, source: "rare" }), put({ at: 2, source: "rare" })];
    storage.reader.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
       INSERT INTO executions (id, workflow_id, workspace_id, project_id, definition_hash, state, source, metadata,
         input, hop, external_calls, tokens, steps_completed, created_at, ended_at)
       SELECT printf('00000000-0000-7000-8000-%012d', i), ?, 'w', 'p', 'h', 'failed', 'api', '{}', '{}', 0, 0, 0, 0, 10 + i,
         10 + i
       FROM n`,
      mine,
    );
    rare.push(put({ at: 20_000, source: "rare" }));
    const first = await get(`/workflows/${mine}/executions?trigger_source=rare`);
    expect([first.ids, first.next === undefined, first.total]).toEqual([[rare[2]!], false, null]);
    expect(await walk(`/workflows/${mine}/executions?trigger_source=rare`)).toEqual(rare.toReversed());
    expect((await get(`/workflows/${mine}/executions?limit=3&offset=10000`)).ids).toHaveLength(3);
  });

  test("of a state is found among thousands of others in another one", async () => {
    const { mine, put, storage, walk, get } = await lists();
    const state = (name: string, at: number) => put({ at, state: name });
    const good = [state("success", 1), state("success", 30_000)];
    const waiting = [state("waiting", 2), state("waiting", 30_001)];
    const cancelled = state("cancelled", 3);
    storage.reader.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
       INSERT INTO executions (id, workflow_id, workspace_id, project_id, definition_hash, state, source, metadata,
         input, hop, external_calls, tokens, steps_completed, created_at, ended_at)
       SELECT printf('00000000-0000-7000-8000-%012d', i), ?, 'w', 'p', 'h', iif(i % 2, 'failed', 'queued'), 'api', '{}',
         '{}', 0, 0, 0, 0, 10 + i, iif(i % 2, 10 + i, NULL) FROM n`,
      mine,
    );
    const here = `/workflows/${mine}/executions`;
    expect(await walk(`${here}?status=success`)).toEqual(good.toReversed());
    expect(await walk(`${here}?status=waiting`)).toEqual(waiting.toReversed());
    expect((await get(`${here}?status=cancelled`)).ids).toEqual([cancelled]);
    const totals = ["success", "waiting", "cancelled", "failed", "queued"].map(
      async (name) => (await get(`${here}?limit=1&status=${name}`)).total,
    );
    expect(await Promise.all(totals)).toEqual(["2", "2", "1", "3000", "3000"]);
  });

  test("keeps its place while new ones come in", async () => {
    const { mine, put, get } = await lists();
    const ids = [1, 2, 3, 4].map((at) => put({ at }));
    const first = await get(`/workflows/${mine}/executions?limit=2`);
    put({ at: 5 });
    expect((await get(first.next!)).ids).toEqual([ids[1]!, ids[0]!]);
  });

  test("shows whatever filters and page sizes exactly what fits, once and in order", async () => {
    const { mine, put, get, walk } = await lists();
    const rows = fc.sample(
      fc.record({
        at: fc.integer({ min: 1, max: 20 }),
        state: fc.constantFrom(...STATES),
        source: fc.constantFrom("api", "webhook", "agent"),
        workflow_id: fc.constantFrom(mine, newId()),
      }),
      { numRuns: 100, seed: 7 },
    );
    const made = rows
      .map((row) => ({ ...row, id: put(row) }))
      .sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 25 }),
        fc.option(fc.constantFrom(...STATES)),
        fc.option(fc.constantFrom("api", "webhook", "nobody")),
        fc.boolean(),
        fc.option(fc.integer({ min: 1, max: 20 })),
        async (limit, state, source, inProject, last) => {
          const query = new URLSearchParams({ limit: String(limit) });
          if (last) query.set("until", new Date(last).toISOString());
          if (state) query.set("status", state);
          if (source) query.set("trigger_source", source);
          const fits = made.filter(
            (row) =>
              (!state || row.state === state) &&
              (!source || row.source === source) &&
              (inProject || row.workflow_id === mine) &&
              (!last || row.at <= last),
          );
          const path = `${inProject ? "/executions" : `/workflows/${mine}/executions`}?${query}`;
          expect(await walk(path)).toEqual(fits.map(({ id }) => id));
          expect((await get(path)).total).toBe(String(fits.length));
        },
      ),
      { numRuns: 60 },
    );
  });
});

test("a start names the version to run; without one the published runs, else the draft", async () => {
  const { executions, workflows, workflow } = world();
  const { id } = await workflow({ nodes: [setVariables("a", { from: "one" })] });
  const run = async (version?: number | "draft") => {
    const context = { hop: 0 };
    const body = { response_type: "result" as const, ...(version === undefined ? {} : { version }) };
    return (await executions.startByKey(CALLER, id, body, context)).body["output_data"];
  };
  await workflows.publish(CALLER, id, {});
  await workflows.update(CALLER, id, { nodes: [setVariables("a", { from: "two" })] });
  expect(await run()).toEqual({ from: "one" });
  expect(await run("draft")).toEqual({ from: "two" });
  expect(await run(1)).toEqual({ from: "one" });
  await expect(run(2)).rejects.toMatchObject({ code: "not_found" });
});
