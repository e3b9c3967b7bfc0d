import { expect, test } from "bun:test";
import { type Delivered, eventually, receiver, world } from "./setup.ts";

const { errand, workspace } = await world({
  command: "dev",
  args: ["--time-scale", "3600", "--rate-limit", "0"],
});

const aWorkflow = async () => {
  const nodes = [
    { node_type_name: "set_variables", name: "done", input_config: { variables: { ok: "yes" } } },
  ];
  const made = await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, { name: "w", nodes });
  return made.body.id;
};
const run = (id: string) => errand.api("POST", `/api/workflows/${id}/executions`, {});
type Log = { logs: { status: string; attempts: number; reason: string | null }[] };
const logs = (id: string) => errand.api<Log>("GET", `/api/v1/webhooks/${id}/logs`);
const subscribe = async (url: string, more: object = {}) =>
  (
    await errand.api<{ id: string }>("POST", "/api/v1/webhooks", {
      ...{ url, events: ["workflow.execution.completed"] },
      ...more,
    })
  ).body.id;
const remove = (id: string) => errand.api("DELETE", `/api/v1/webhooks/${id}`);

test("time that runs 3,600 times as fast is announced, and shows the whole schedule in seconds", async () => {
  await eventually(
    async () => errand.output(),
    (output) => output.includes("3600 times as fast"),
  );
  const seen: Delivered[] = [];
  const target = receiver((got) => {
    seen.push(got);
    return new Response(null, { status: 500 });
  });
  const id = await subscribe(target.url);
  await run(await aWorkflow());
  const { body } = await eventually(
    () => logs(id),
    ({ body }) => body.logs[0]?.status === "failed",
    30_000,
  );
  expect(body.logs[0]).toMatchObject({ status: "failed", attempts: 6 });
  expect(seen.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "2", "3", "4", "5", "6"]);
  // What receivers are told of the time is the time on the wall.
  for (const { headers } of seen) {
    expect(Math.abs(Number(headers["webhook-timestamp"]) - Date.now() / 1_000)).toBeLessThan(60);
  }
  await remove(id);
}, 60_000);

test("a workflow that is fired by its own completion goes round eight times and no more", async () => {
  const workflow = await aWorkflow();
  const hook = await errand.api<{ url: string }>("POST", `/api/workflows/${workflow}/webhook-tokens`, {});
  const id = await subscribe(hook.body.url);
  await run(workflow);
  const { body } = await eventually(
    () => logs(id),
    ({ body }) =>
      body.logs.length === 9 &&
      body.logs.every(({ status }) => status === "success" || status === "cancelled"),
  );
  expect(body.logs[0]).toMatchObject({ status: "cancelled", reason: "a loop: more than 8 hops" });
  expect(body.logs.filter(({ status }) => status === "success")).toHaveLength(8);
  const runs = await errand.api<object[]>("GET", `/api/workflows/${workflow}/executions`);
  expect(runs.body).toHaveLength(9);
  await remove(id);
}, 60_000);

test("a pause keeps, a resume sends, a batch gathers and a replay repeats, by API and command line", async () => {
  const target = receiver();
  const id = await subscribe(target.url, { batch_settings: { max_events: 2, max_wait_seconds: 3_600 } });
  const workflow = await aWorkflow();
  expect((await errand.command("webhooks", "pause", id)).code).toBe(0);
  await run(workflow);
  await run(workflow);
  await eventually(
    () => logs(id),
    ({ body }) => body.logs.filter(({ status }) => status === "paused").length === 2,
  );
  expect((await errand.command("webhooks", "resume", id)).code).toBe(0);
  const batch = JSON.parse((await target.next()).body);
  expect(batch).toMatchObject({ event: "batch", data: { count: 2 } });
  await eventually(
    () => logs(id),
    ({ body }) => body.logs.some(({ status }) => status === "success"),
  );
  const replayed = await errand.command(
    ...["webhooks", "replay", id, "--since", "2020-01-01", "--status", "success", "--json"],
  );
  expect(JSON.parse(replayed.stdout)).toEqual({ webhook_id: id, replayed: 1, next_since: null });
  expect(JSON.parse((await target.next()).body)).toEqual(batch);
  await remove(id);
}, 60_000);

test("the command line keeps the server's time: an overlap that it begins is as long as the server's", async () => {
  const id = await subscribe(receiver().url);
  const { body } = await errand.api<{ created_at: string }>("GET", `/api/v1/webhooks/${id}`);
  const rotated = await errand.command(
    "webhooks",
    "rotate-secret",
    id,
    "--overlap-seconds",
    "604800",
    "--json",
  );
  const until = Date.parse(JSON.parse(rotated.stdout).previous_secret_until);
  expect(until - Date.parse(body.created_at)).toBeGreaterThanOrEqual(7 * 86_400_000);
  await remove(id);
}, 60_000);
