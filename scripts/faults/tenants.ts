/**
 * Two workspaces of two projects each, every one with one of everything. Each key and each token then reaches
 * for what belongs to the others: by every operation of the interface, with foreign ids in the path, the
 * query and the body. Nothing foreign may be answered, nothing foreign may change, and a refusal may not
 * tell one foreign thing from another.
 */
import { createKey, discard, type Errand, type Key, scratch, startErrand } from "../lib/errand.ts";
import { generator } from "../lib/hook-load.ts";
import { type Operation, operationsOf } from "./lib/openapi.ts";
import { type Ids, idAt, newScope, type Project, populate } from "./lib/project.ts";
import { difference, rowsByProject } from "./lib/rows.ts";
import { script } from "./lib/script.ts";

export type Report = {
  operations: number;
  probes: number;
  /** Reads of the owner that found what the others must not: without them no refusal would mean anything. */
  controls: number;
  statuses: Record<string, number>;
  leaks: string[];
  changes: string[];
  /** Answers that are neither a refusal nor allowed for what was asked. */
  odd: string[];
  /** Refusals that tell one foreign thing from another. */
  uneven: string[];
};

type Probe = {
  method: string;
  path: string;
  body?: unknown;
  /** undefined: without any key. */
  credentials: "own" | "revoked" | "none";
  /** What kind of probe it is, in which refusals must be alike. */
  kind: string;
  /** The ids that were sent; they may come back. */
  sent: string[];
  /** Something else than a refusal is right, as long as nothing foreign is in it. */
  harmless?: true;
};

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const LANES = 6;

const fill = (path: string, idOf: (name: string, index: number) => string): string => {
  let index = 0;
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(idOf(name, index++)));
};

const SCOPES = ["workspace_id", "project_id"];
/** Foreign ids in the query that narrow a list or name a thread: nothing is found by them, which is no refusal. */
const narrowing = ({ ids, mark }: Project): Record<string, string> => ({
  workflow_id: ids.workflow,
  subject_id: ids.execution,
  execution_id: ids.execution,
  chatId: ids.thread,
  user_id: mark,
  search_query: mark,
  tag: mark,
});

/** A body that would be right if the address were one's own. */
function goodBody({ method, path }: Operation): object {
  const at = `${method} ${path.replace(/^\/(api|v1)/, "")}`;
  if (/rotate-secret/.test(at)) return {};
  if (/PUT .*triggers/.test(at)) return { name: "taken" };
  if (/stream$/.test(at)) return { id: "probe", messages: [{ role: "user", content: "Hello" }] };
  if (/POST \/webhooks\/agents/.test(at)) return { message: "Hello" };
  if (/approvals/.test(at)) return { approved: true };
  if (/feedback/.test(at)) return { rating: 1 };
  if (/replay$/.test(at) && /v1\/webhooks/.test(at)) return { since: "2020-01-01T00:00:00Z", status: "any" };
  if (/test-step/.test(at)) return { node: "say" };
  if (/PUT/.test(at) && /connections/.test(at)) return { config: { token: "taken" } };
  if (/PUT \/(agents|workflows)\/\{id\}$/.test(at) || /PUT .*webhooks\/\{id\}$/.test(at))
    return { name: "taken" };
  if (/PUT .*conversations/.test(at)) return { title: "taken" };
  return {};
}

/** Bodies that name what is foreign, to addresses of one's own. */
function bodiesNaming(
  them: Project,
  me: Project,
): { method: string; path: string; body: object; harmless?: true }[] {
  const { ids } = them;
  const scope = `workspace_id=${me.key.workspace_id}`;
  const node = (node_type_name: string, input_config: object, more: object = {}) => ({
    name: "n",
    node_type_name,
    input_config,
    ...more,
  });
  const url = "http://127.0.0.1:9/";
  const nodes = [
    node("call_other_workflow", { workflow_id: ids.workflow }),
    node("run_agent", { agent_id: ids.agent, message: "Hello" }),
    node("api_call", { url }, { connection: ids.connection }),
    node("api_call", { url }, { connection: them.mark }),
  ];
  const agents = [
    { tools: [{ workflow_id: ids.workflow }] },
    { sub_agents: [{ agent_id: ids.agent }] },
    { datasets: [{ dataset_id: ids.workflow }] },
  ];
  const mine = me.ids;
  return [
    ...agents.flatMap((body) => [
      { method: "POST", path: `/api/agents?${scope}`, body: { name: "probe", ...body } },
      { method: "PUT", path: `/api/agents/${mine.agent}`, body },
    ]),
    // What nodes refer to is looked up when they run: writing and trying them may go well, and tells nothing.
    ...nodes.flatMap((one) => [
      {
        method: "POST",
        path: "/api/workflows/validate",
        body: { name: "probe", nodes: [one] },
        harmless: true as const,
      },
      {
        method: "POST",
        path: `/api/workflows/${mine.workflow}/test-step`,
        body: { node: one },
        harmless: true as const,
      },
    ]),
    {
      method: "PUT",
      path: `/api/workflows/${mine.workflow}/settings`,
      body: { failure_workflow_id: ids.workflow },
    },
    { method: "PUT", path: `/api/workflows/${mine.workflow}`, body: { id: ids.workflow } },
    { method: "PUT", path: `/api/workflows/${mine.workflow}`, body: { workspace_id: ids.project } },
    { method: "POST", path: "/api/keys", body: { name: "probe", project_id: ids.project } },
    ...(ids.workspace === mine.workspace
      ? []
      : [{ method: "POST", path: "/api/keys", body: { name: "probe", workspace_id: ids.workspace } }]),
    // A thread is its caller's own name for a conversation: the same name is another conversation here.
    {
      method: "POST",
      path: `/api/agents/${mine.agent}/stream`,
      body: { id: ids.thread, messages: [{ role: "user", content: "What was said before?" }] },
      harmless: true as const,
    },
  ];
}

/** Everything that `me` may try to reach of `them`. */
function probesOf(operations: Operation[], me: Project, them: Project): Probe[] {
  const foreign = Object.values(them.ids);
  const probes: Probe[] = [];
  const add = (probe: Omit<Probe, "credentials" | "sent"> & Partial<Probe>) =>
    probes.push({ credentials: "own", sent: foreign, ...probe });
  for (const operation of operations) {
    const { method, path, policy, params, query } = operation;
    const body = method === "POST" || method === "PUT" ? goodBody(operation) : undefined;
    const name = `${method} ${path}`;
    const with_ = (ids: Ids) => (param: string) => idAt(path, param, ids);
    const scoped = query.includes("workspace_id") ? `workspace_id=${me.key.workspace_id}` : "";
    if (params.length > 0) {
      const hits = [(_: number) => them.ids];
      // Only the first or only the last is foreign; a number of a version is nobody's.
      if (params.filter((param) => param !== "version").length > 1) {
        hits.push((index) => (index === 0 ? them.ids : me.ids));
        hits.push((index) => (index === 0 ? me.ids : them.ids));
      }
      for (const [nth, whose] of hits.entries()) {
        const filled = fill(path, (param, index) => with_(whose(index))(param));
        if (policy === "hook") {
          const tokens = [me.agentToken, me.workflowToken, new URL(me.callback).searchParams.get("token")!];
          for (const token of tokens)
            add({ method, path: `${filled}?token=${token}`, body, kind: `${name} ${nth}` });
        } else {
          // A workspace's keys, without their secrets, are shown to every key of it.
          const shared = name === "GET /api/keys/{id}" && them.ids.workspace === me.ids.workspace;
          // A stream that is not under way answers 204, whether there is such a conversation or not.
          const stream = method === "GET" && path.endsWith("/stream") && filled.includes(me.ids.agent);
          add({
            method,
            path: filled,
            body,
            kind: `${name} ${nth}`,
            ...(shared || stream ? { harmless: true as const } : {}),
          });
        }
        if (policy === "key" && nth === 0) {
          for (const credentials of ["none", "revoked"] as const)
            add({ method, path: filled, body, credentials, kind: `${name} ${nth} ${credentials}` });
        }
      }
    }
    const own = fill(path, with_(me.ids));
    for (const param of SCOPES.filter((each) => query.includes(each))) {
      const id = param === "project_id" ? them.ids.project : them.ids.workspace;
      if (id === me.ids.workspace) continue;
      const rest = param === "workspace_id" ? "" : `&${scoped}`;
      add({ method, path: `${own}?${param}=${id}${rest}`, body, kind: `${name} ?${param}` });
    }
    if (method !== "GET" || policy !== "key") continue;
    for (const [param, value] of Object.entries(narrowing(them))) {
      if (!query.includes(param)) continue;
      const path = `${own}?${param}=${encodeURIComponent(value)}&${scoped}`;
      add({ method, path, kind: `${name} ?${param}`, harmless: true });
    }
  }
  for (const { method, path, ...rest } of bodiesNaming(them, me))
    add({ method, path, ...rest, kind: `${method} ${path} ${Object.keys(rest.body).join()}` });
  return probes;
}

/** The same probe said otherwise: another id of the same project in the place of one, or the same id in another form. */
function varied(probe: Probe, them: Project, random: () => number): Probe {
  const pick = <T>(list: T[]): T => list[Math.floor(random() * list.length)]!;
  const ids = Object.values(them.ids).filter((id) => /-.*-/.test(id));
  const text = JSON.stringify([probe.path, probe.body ?? null]);
  const foreign = [...text.matchAll(UUID)].map(([id]) => id).filter((id) => ids.includes(id));
  if (foreign.length === 0) return probe;
  const one = pick(foreign);
  const other = pick([
    () => pick(ids),
    () => one.toUpperCase(),
    () => `%${one.charCodeAt(0).toString(16)}${one.slice(1)}`,
  ])();
  const [path, body] = JSON.parse(text.replaceAll(one, other)) as [string, unknown];
  return { ...probe, path, body: body ?? undefined, kind: "", harmless: true, sent: [...probe.sent, other] };
}

export async function probeTenants(options: {
  probes: number;
  seed: number;
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const data = scratch();
  const random = generator(options.seed);
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: 204 }),
  });
  const report: Report = {
    operations: 0,
    probes: 0,
    controls: 0,
    statuses: {},
    leaks: [],
    changes: [],
    odd: [],
    uneven: [],
  };
  let errand: Errand | undefined;
  try {
    const first = await createKey(data);
    const scopes: Key[] = [first, await newScope(data, "Second", first.workspace_id)];
    scopes.push(await newScope(data, "Third"));
    scopes.push(await newScope(data, "Fourth", scopes[2]!.workspace_id));
    const args = ["--log-level", "error", "--access-log", "false", "--anonymous-rate-limit", "0"];
    errand = await startErrand({ data, args, env: { ERRAND_ALLOW_TARGETS: "127.0.0.1" }, key: first });
    const operations = await operationsOf(errand);
    report.operations = operations.length;
    const projects: Project[] = [];
    for (const [index, key] of scopes.entries()) {
      const mark = `mark${index}x${Math.floor(random() * 1e9).toString(36)}`;
      projects.push(await populate(errand, key, mark, `http://127.0.0.1:${receiver.port}/`));
    }
    const revoked = (await projects[0]!.ask("POST", "/api/keys", { name: "revoked" })).json as {
      id: string;
      key: string;
    };
    await projects[0]!.ask("DELETE", `/api/keys/${revoked.id}`);
    report.controls = await control(operations, projects);

    const bodies = new Map<string, Set<string>>();
    const share = Math.ceil(options.probes / projects.length);
    for (const me of projects) {
      const all = projects.map(({ ids }) => ids.project);
      const before = rowsByProject(data, all);
      const others = projects.filter((each) => each !== me);
      const planned = others.flatMap((them) =>
        probesOf(operations, me, them).map((probe) => ({ them, probe })),
      );
      shuffle(planned, random);
      // First each as it stands, then again and again in other forms.
      const queue = planned.slice(0, share);
      const withKey = planned.filter(({ probe }) => probe.credentials === "own");
      while (queue.length < share) {
        const { them, probe } = withKey[Math.floor(random() * withKey.length)]!;
        queue.push({ them, probe: varied(probe, them, random) });
      }
      const lane = async () => {
        for (let next = queue.pop(); next; next = queue.pop()) {
          await fire(errand!, me, next.them, next.probe, revoked.key, report, bodies);
          if (report.probes % 500 === 0) options.progress?.(`${report.probes} probes`);
        }
      };
      await Promise.all(Array.from({ length: LANES }, lane));
      const after = rowsByProject(data, all);
      for (const { ids, mark } of others) {
        for (const row of difference(before.get(ids.project)!, after.get(ids.project)!))
          if (!isNoteOfRefusal(row)) report.changes.push(`${me.mark} changed ${mark}: ${row.slice(0, 300)}`);
      }
    }
    for (const [kind, said] of bodies)
      if (said.size > 1) report.uneven.push(`${kind}: ${[...said].join(" | ")}`);
    const code = await errand.stop();
    if (code !== 0) report.odd.push(`the program ended with ${code}`);
    return report;
  } finally {
    await errand?.kill().catch(() => {});
    receiver.stop(true);
    discard(data);
  }
}

// A trigger's owner is told who was refused; of these notes a trigger keeps a number.
const isNoteOfRefusal = (row: string): boolean => /^. trigger_events .*"state":"refused"/.test(row);

/** Owners read what is theirs; answers how many operations showed their mark or their ids. */
async function control(operations: Operation[], projects: Project[]): Promise<number> {
  let found = 0;
  for (const { method, path, policy, params } of operations) {
    if (method !== "GET" || policy !== "key" || params.length === 0 || path.endsWith("stream")) continue;
    const { ask, ids, mark } = projects[0]!;
    const { status, text } = await ask(
      "GET",
      fill(path, (param) => idAt(path, param, ids)),
    );
    if (status === 200 && (text.includes(mark) || Object.values(ids).some((id) => text.includes(id))))
      found++;
  }
  return found;
}

async function fire(
  errand: Errand,
  me: Project,
  them: Project,
  probe: Probe,
  revoked: string,
  report: Report,
  bodies: Map<string, Set<string>>,
): Promise<void> {
  const key = { own: me.key.key, revoked, none: undefined }[probe.credentials];
  const response = await fetch(errand.url + probe.path, {
    method: probe.method,
    headers: {
      ...(key === undefined || /^\/webhooks/.test(probe.path) ? {} : { authorization: `Bearer ${key}` }),
      ...(probe.body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(probe.body === undefined ? {} : { body: JSON.stringify(probe.body) }),
  });
  const text = await response.text();
  const { status } = response;
  report.probes++;
  report.statuses[status] = (report.statuses[status] ?? 0) + 1;
  const what = `${me.mark} on ${them.mark}: ${probe.method} ${probe.path} ${JSON.stringify(probe.body ?? null)}: ${status}`;

  const request = probe.path + JSON.stringify(probe.body ?? null);
  if (text.includes(them.mark) && !request.includes(them.mark))
    report.leaks.push(`${what} ${text.slice(0, 200)}`);
  const shared =
    me.ids.workspace === them.ids.workspace ? [me.ids.workspace, them.ids.project, them.ids.key] : [];
  const own = new Set(Object.values(them.ids).filter((id) => !shared.includes(id) && !request.includes(id)));
  if ((text.match(UUID) ?? []).some((id) => own.has(id))) report.leaks.push(`${what} ${text.slice(0, 200)}`);

  const expected = probe.credentials !== "own" ? [401] : [400, 401, 403, 404];
  if (status >= 500 || (!probe.harmless && !expected.includes(status)))
    report.odd.push(`${what} ${text.slice(0, 200)}`);
  if (probe.kind === "" || ![403, 404].includes(status)) return;
  let plain = text.replace(/"request_id":"[^"]*"/g, "");
  for (const id of [...probe.sent, ...Object.values(me.ids)]) plain = plain.replaceAll(id, "ID");
  const kind = `${probe.kind.replace(UUID, "ID")} ${status}`;
  bodies.set(kind, (bodies.get(kind) ?? new Set()).add(plain));
}

function shuffle(list: unknown[], random: () => number): void {
  for (let at = list.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [list[at], list[other]] = [list[other], list[at]];
  }
}

export const isClean = (report: Report): boolean =>
  report.leaks.length + report.changes.length + report.odd.length + report.uneven.length === 0 &&
  report.controls > 10;

if (import.meta.main) {
  await script({
    name: "tenants",
    about:
      "Reaches with each project's key and tokens for what belongs to other projects, by every operation.",
    numbers: { probes: { help: "how many requests", usually: 2_000 } },
    run: ({ number }, progress) => probeTenants({ probes: number("probes"), seed: number("seed"), progress }),
    isClean,
  });
}
