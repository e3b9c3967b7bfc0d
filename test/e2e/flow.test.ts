import { expect, test } from "bun:test";
import { eventually, receiver, world } from "./setup.ts";

const { errand, key, workspace } = await world();

const node = (node_type_name: string, name: string, input_config: object) => ({
  node_type_name,
  name,
  input_config,
});

async function aWorkflow(nodes: object[]) {
  const made = await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, {
    name: "flow",
    nodes,
  });
  expect(made.status).toBe(201);
  return made.body.id;
}

type Run = {
  id: string;
  status: string;
  output_data: unknown;
  steps: { position: string; status: string }[];
  error: { code: string } | null;
};
const read = async (id: string) => (await errand.api<Run>("GET", `/api/executions/${id}`)).body;
const ended = (id: string, status: string) =>
  eventually(
    () => read(id),
    (run) => run.status === status,
  );

const authorized = { authorization: `Bearer ${key.key}`, "content-type": "application/json" };

test("an approval: somebody is told where to call, calls, and the stream tells all of it to its end", async () => {
  const mail = receiver(() => Response.json({}));
  const workflow = await aWorkflow([
    node("wait", "approval", {
      callback: {
        timeout_seconds: 600,
        nodes: [
          node("api_call", "tell", { method: "POST", url: mail.url, body: { link: "{{ callback.url }}" } }),
        ],
      },
    }),
    node("condition", "decided", {
      if: { "approval.body.approved": true },
      // biome-ignore lint/suspicious/noThenProperty: a list, which nothing takes for a promise
      then: [node("set_variables", "yes", { variables: { by: "{{ approval.body.by }}" } })],
      else: [node("stop_workflow", "no", { status: "failed", message: "not approved" })],
    }),
  ]);
  const stream = await fetch(`${errand.url}/api/workflows/${workflow}/executions`, {
    method: "POST",
    headers: authorized,
    body: JSON.stringify({ response_type: "stream" }),
  });
  expect(stream.headers.get("content-type")).toBe("text/event-stream");
  const id = stream.headers.get("x-execution-id")!;
  const { link } = JSON.parse((await mail.next()).body) as { link: string };
  await ended(id, "waiting");

  const at = new URL(link);
  const post = (token: string, body: string) =>
    fetch(`${errand.url}${at.pathname}?token=${token}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
  const refused = await post("wrong", "{}");
  expect(refused.status).toBe(401);
  expect(await refused.json()).toMatchObject({ success: false, error: { code: "UNAUTHORIZED" } });
  const token = at.searchParams.get("token")!;
  expect((await post(token, '{"approved":true,"by":"Ada"}')).status).toBe(202);
  expect((await post(token, "{}")).status).toBe(410);

  const told = await stream.text();
  expect(told).toContain("event: end");
  expect(told.slice(told.lastIndexOf("event: end"))).toContain('"by":"Ada"');
  const last = /id: (\d+)\ndata: .*\n\nevent: end/.exec(told)![1]!;
  const rest = await fetch(`${errand.url}/api/executions/${id}/stream`, {
    headers: { ...authorized, "last-event-id": last },
  });
  expect((await rest.text()).match(/^event: \w+/gm)).toEqual(["event: status", "event: end"]);
});

test("a webhook is answered by the workflow while its loop still waits", async () => {
  const workflow = await aWorkflow([
    node("respond_to_webhook", "answer", {
      status: 201,
      headers: { "x-order": "{{ order }}" },
      body: "taken",
    }),
    node("for_each", "each", {
      items: [1, 2, 3],
      parallelism: 3,
      nodes: [node("wait", "pause", { seconds: 0.2 })],
    }),
  ]);
  const { url } = (await errand.api<{ url: string }>("POST", `/api/workflows/${workflow}/webhook-tokens`, {}))
    .body;
  const answer = await fetch(`${errand.url}${new URL(url).pathname}${new URL(url).search}&wait=10`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input_data: { order: "7" } }),
  });
  expect([answer.status, answer.headers.get("x-order"), await answer.text()]).toEqual([201, "7", "taken"]);
  const [run] = (await errand.api<Run[]>("GET", `/api/workflows/${workflow}/executions`)).body;
  const done = await eventually(
    () => read(run!.id),
    (one) => one.status === "success",
  );
  expect(done.output_data).toMatchObject({ count: 3 });
}, 10_000);

test("a failed run is gone on with once what it called is well again", async () => {
  let well = false;
  const target = receiver(() => new Response(null, { status: well ? 200 : 400 }));
  const child = await aWorkflow([node("set_variables", "c", { variables: { twice: "{{ n | times: 2 }}" } })]);
  const workflow = await aWorkflow([
    node("call_other_workflow", "sub", { workflow_id: child, workflow_input: { n: 4 } }),
    node("api_call", "call", { url: target.url, method: "POST" }),
    node("set_variables", "last", { variables: { got: "{{ sub.workflow_output.twice }}" } }),
  ]);
  const start = await errand.api<{ execution_id: string }>(
    "POST",
    `/api/workflows/${workflow}/executions`,
    {},
  );
  const failed = await ended(start.body.execution_id, "failed");
  expect(failed.error).toMatchObject({ code: "HTTP_STATUS" });
  well = true;
  const retry = await errand.api<{ execution_id: string }>("POST", `/api/executions/${failed.id}/retry`, {});
  expect(retry.status).toBe(202);
  expect((await ended(retry.body.execution_id, "success")).output_data).toEqual({ got: 8 });
  const replay = await errand.api<{ execution_id: string }>(
    "POST",
    `/api/executions/${failed.id}/replay`,
    {},
  );
  expect((await ended(replay.body.execution_id, "success")).output_data).toEqual({ got: 8 });
  const step = await errand.api<{ output: unknown }>("POST", `/api/workflows/${workflow}/test-step`, {
    node: "last",
    outputs: { sub: { workflow_output: { twice: 1 } } },
  });
  expect(step.body.output).toEqual({ got: 1 });
});
