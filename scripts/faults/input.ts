/**
 * Sends what no client should send: raw bytes that are nearly HTTP, bodies and queries made of the interface's
 * own description, JSON that is none, texts that have broken programs before; and holds the check of
 * input_schema against draft-07. The program may refuse anything, but not crash, not answer 5xx, not stand
 * still, and what it takes it gives back as it was.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { inputCheck, inputSchemaFaults } from "../../src/workflows/input-schema.ts";
import { createKey, discard, type Errand, scratch, startErrand } from "../lib/errand.ts";
import { generator } from "../lib/hook-load.ts";
import { fromSchema, junk } from "./lib/from-schema.ts";
import { JSON_SAMPLES, type JsonSample } from "./lib/json-samples.ts";
import { NAUGHTY } from "./lib/naughty.ts";
import { operationsOf } from "./lib/openapi.ts";
import { idAt, type Project, populate } from "./lib/project.ts";
import { mutate, seedRequests, sendRaw } from "./lib/raw-http.ts";
import { SCHEMA_SAMPLES, type SchemaSample } from "./lib/schema-samples.ts";
import { script } from "./lib/script.ts";
import { stallsOf, suspicion } from "./lib/stalls.ts";

export type Report = {
  raw: Counted;
  walked: Counted;
  json: Counted & { samples: number };
  schemas: { samples: number; refused: number; wrong: string[] };
  texts: { sent: number; refused: number; changed: string[] };
  /** 5xx, and answers in another form than promised. */
  odd: string[];
  /** Requests that hold up all others for more than 100 ms, each time they are sent. */
  stalls: string[];
  /** Why the program is not running any more; undefined: it is. */
  ended: string | undefined;
};
type Counted = { sent: number; statuses: Record<string, number> };

export type Plan = {
  raw: number;
  walked: number;
  /** Each how manieth naughty text is sent. */
  each_text: number;
  seed: number;
  /** Folders of JSONTestSuite's test_parsing and of a draft-07 suite. */
  jsonCorpus?: string | undefined;
  schemaCorpus?: string | undefined;
  progress?: ((text: string) => void) | undefined;
};

const LANES = 8;
// Half a request is waited for, which is no work for anybody: many wait at a time.
const RAW_LANES = 48;
const PATIENCE_MS = 400;
const LONGEST_ANSWER_MS = 60_000;
// Whoever asks to wait for a run that waits is kept waiting.
const LONGEST_WAIT_MS = 5_000;
/** Where refusals have the form that clients of OpenAI's interface know. */
const OF_OPENAI = /^\/api\/(models|chat|responses)(\/|$)/;

export async function sendEverything(plan: Plan): Promise<Report> {
  const data = scratch();
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: 204 }),
  });
  const key = await createKey(data);
  const args = ["--log-level", "error", "--access-log", "false", "--anonymous-rate-limit", "0"];
  const errand = await startErrand({ data, key, args, env: { ERRAND_ALLOW_TARGETS: "127.0.0.1" } });
  const report: Report = {
    raw: { sent: 0, statuses: {} },
    walked: { sent: 0, statuses: {} },
    json: { sent: 0, statuses: {}, samples: 0 },
    schemas: checkSchemas(schemaSamples(plan.schemaCorpus)),
    texts: { sent: 0, refused: 0, changed: [] },
    odd: [],
    stalls: [],
    ended: undefined,
  };
  let running = true;
  void errand.ended.then(() => {
    running = false;
  });
  try {
    const project = await populate(errand, key, "input", `http://127.0.0.1:${receiver.port}/`);
    const world = { errand, project, report, ...suspicion() };
    await sendTexts(world, plan);
    await sendJson(world, jsonSamples(plan.jsonCorpus));
    await walk(world, plan);
    await sendBytes(world, plan);
    if (running) report.stalls = await stallsOf(errand.url, world.suspects);
    if (!running) report.ended = errand.output().slice(-2_000);
    else if ((await errand.stop()) !== 0)
      report.ended = `did not stop well: ${errand.output().slice(-2_000)}`;
    return report;
  } finally {
    await errand.kill().catch(() => {});
    receiver.stop(true);
    discard(data);
  }
}

type World = { errand: Errand; project: Project; report: Report } & ReturnType<typeof suspicion>;

const note = ({ statuses }: Counted, status: number | string): void => {
  statuses[status] = (statuses[status] ?? 0) + 1;
};

async function inLanes(count: number, act: (n: number) => Promise<void>, lanes = LANES): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

async function sendBytes(
  { errand, project, report, timed }: World,
  { raw, seed, progress }: Plan,
): Promise<void> {
  const { hostname, port, host } = new URL(errand.url);
  const seeds = seedRequests(host, project.key.key, project.ids);
  const random = generator(seed);
  const one = async (n: number) => {
    const bytes = mutate(seeds, random);
    const { status, head } = await sendRaw(hostname, Number(port), bytes, PATIENCE_MS);
    report.raw.sent++;
    note(report.raw, status ?? "none");
    // 505: the server's own answer to a version of HTTP that it does not know.
    if (status !== undefined && status >= 500 && status !== 505)
      report.odd.push(`${JSON.stringify(bytes.toString("latin1").slice(0, 300))}: ${head.slice(0, 200)}`);
    if (/\bat .*\.ts:\d+|<html/i.test(head))
      report.odd.push(`an answer of another form: ${head.slice(0, 300)}`);
    if (n % 500 === 0) {
      await timed(`health after ${n} raw requests`, async () => (await fetch(`${errand.url}/health`)).text());
      progress?.(`${n} raw requests`);
    }
  };
  await inLanes(raw, one, RAW_LANES);
}

async function walk(
  { errand, project, report, timed }: World,
  { walked, seed, progress }: Plan,
): Promise<void> {
  const operations = await operationsOf(errand);
  // What removes comes last, so that the rest meets something.
  const rank = ({ method, path }: { method: string; path: string }) =>
    Number(method === "DELETE") + Number(/revoke|rotate$/.test(path));
  operations.sort((a, b) => rank(a) - rank(b));
  const spare = await project.ask("POST", "/api/keys", { name: "spare" });
  // Its own key must outlive this.
  project.ids.key = (spare.json as { id: string }).id;
  const ids = Object.values(project.ids);
  const anyId = fc.oneof(fc.constantFrom(...ids), fc.uuid(), fc.string({ minLength: 1, maxLength: 30 }));
  const each = Math.max(1, Math.ceil(walked / operations.length));
  const authorization = `Bearer ${project.key.key}`;
  for (const operation of operations) {
    const { method, path, policy, params, querySchemas, body } = operation;
    const name = `${method} ${path}`;
    const value = (schema: object) => fromSchema(schema as Record<string, unknown>, ids).map(asQuery);
    const request = fc.record({
      params: fc.tuple(
        ...params.map((param) =>
          fc.oneof({ weight: 12, arbitrary: fc.constant(idAt(path, param, project.ids)) }, anyId),
        ),
      ),
      query: fc.record(
        Object.fromEntries(Object.entries(querySchemas).map(([key, schema]) => [key, value(schema)])),
        {
          requiredKeys: [],
        },
      ),
      body: body ? fromSchema(body, ids) : junk,
      scoped: fc.boolean(),
    });
    await inLanesOf(fc.sample(request, { numRuns: each, seed }), async (made) => {
      let index = 0;
      const filled = path.replace(/\{\w+\}/g, () => encodeURIComponent(made.params[index++]!));
      const query = new URLSearchParams(made.query as Record<string, string>);
      if (made.scoped && "workspace_id" in querySchemas) query.set("workspace_id", project.ids.workspace);
      if (policy === "hook") query.set("token", project.workflowToken);
      const url = `${errand.url}${filled}?${query}`;
      const hasBody = method !== "GET" && method !== "DELETE";
      const init: RequestInit = {
        method,
        headers: {
          ...(policy === "key" ? { authorization } : {}),
          ...(hasBody ? { "content-type": "application/json" } : {}),
        },
        ...(hasBody ? { body: JSON.stringify(made.body) ?? "null" } : {}),
      };
      const what = `${name} ${JSON.stringify([filled, String(query), made.body]).slice(0, 600)}`;
      const isPatient = /"result"|"stream"|stream|wait/.test(what);
      const longest = isPatient ? LONGEST_WAIT_MS : LONGEST_ANSWER_MS;
      const send = async () => {
        const response = await fetch(url, { ...init, signal: AbortSignal.timeout(longest) });
        return {
          status: response.status,
          type: response.headers.get("content-type"),
          text: await response.text(),
        };
      };
      report.walked.sent++;
      try {
        const { status, type, text } = await timed(what, send);
        note(report.walked, status);
        if (status >= 500) report.odd.push(`${what}: ${status} ${text.slice(0, 300)}`);
        else if (status >= 400 && type?.startsWith("application/json")) {
          const { error } = JSON.parse(text) as { error?: Record<string, unknown> };
          // What is no path at all is refused before anybody asks whose it might be.
          const isOpenAi = OF_OPENAI.test(path) && !text.includes("a canonical path");
          const form = isOpenAi ? ["message", "type"] : ["code", "request_id"];
          if (!form.every((field) => error?.[field]))
            report.odd.push(`${what}: ${status} without code: ${text.slice(0, 200)}`);
        }
      } catch (error) {
        const isWaiting = isPatient && (error as Error).name === "TimeoutError";
        note(report.walked, isWaiting ? "waiting" : "cut");
        if (!isWaiting) report.odd.push(`${what}: ${(error as Error).message}`);
      }
    });
    progress?.(`${report.walked.sent} requests made of the description`);
  }
}

const asQuery = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "");

const inLanesOf = <T>(list: T[], act: (item: T) => Promise<void>) =>
  inLanes(list.length, (n) => act(list[n]!));

async function sendJson({ errand, project, report, timed }: World, samples: JsonSample[]): Promise<void> {
  const headers = { authorization: `Bearer ${project.key.key}`, "content-type": "application/json" };
  const post = async (body: Uint8Array<ArrayBuffer>) => {
    const response = await fetch(`${errand.url}/api/workflows/validate`, { method: "POST", headers, body });
    return { status: response.status, text: await response.text() };
  };
  report.json.samples = samples.length;
  for (const { name, bytes } of samples) {
    const within = new Uint8Array(Buffer.concat([Buffer.from('{"x":'), bytes, Buffer.from("}")]));
    for (const body of [bytes, within]) {
      const { status, text } = await timed(name, () => post(body));
      report.json.sent++;
      note(report.json, status);
      if (status >= 500) report.odd.push(`${name}: ${status}`);
      if (name.startsWith("n_") && status < 400) report.odd.push(`${name} was taken: ${text.slice(0, 100)}`);
      if (name.startsWith("y_") && body === within && status !== 200)
        report.odd.push(`${name} was refused: ${text.slice(0, 300)}`);
    }
  }
}

function jsonSamples(folder: string | undefined): JsonSample[] {
  if (folder === undefined) return JSON_SAMPLES;
  const files = readdirSync(folder).filter((name) => /^[yni]_.*\.json$/.test(name));
  return files.map((name) => ({ name, bytes: new Uint8Array(readFileSync(join(folder, name))) }));
}

function schemaSamples(folder: string | undefined): SchemaSample[] {
  if (folder === undefined) return SCHEMA_SAMPLES;
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .flatMap((name) => {
      const samples = JSON.parse(readFileSync(join(folder, name), "utf8")) as SchemaSample[];
      return samples.map((one) => ({ ...one, description: `${name}: ${one.description}` }));
    });
}

/** Each schema as the one input of a workflow. What is refused when it is written can mislead nobody. */
function checkSchemas(samples: SchemaSample[]): Report["schemas"] {
  const report: Report["schemas"] = { samples: 0, refused: 0, wrong: [] };
  for (const { description, schema, tests } of samples) {
    const { definitions, ...rest } = (
      typeof schema === "object" ? schema : { not: schema === true ? false : {} }
    ) as Record<string, unknown>;
    const base = { title: "", description: "", required: [], properties: { v: { title: "V", ...rest } } };
    const given = definitions === undefined ? base : { ...base, definitions };
    if (inputSchemaFaults(given as never).length > 0) {
      report.refused++;
      continue;
    }
    const check = inputCheck(given as never);
    for (const { description: test, data, valid } of tests) {
      report.samples++;
      if ((check({ v: data } as never).length === 0) !== valid)
        report.wrong.push(`${description}, ${test}: should be ${valid}`);
    }
  }
  return report;
}

/** Every naughty text into every field that takes free text, and read again. */
async function sendTexts({ project, report, timed }: World, { each_text }: Plan): Promise<void> {
  const { ask, ids, key } = project;
  const scope = `workspace_id=${key.workspace_id}`;
  const talk = `/api/agents/${ids.agent}/conversations/${ids.thread}`;
  // Where a text is written, with what, and how it is found in what is read afterwards.
  type Read = Record<string, unknown>;
  const places: {
    method: string;
    path: string;
    body(text: string): object;
    read?: string;
    found(answer: Read): unknown;
  }[] = [
    ...["name", "description", "system_prompt", "welcome_message"].map((field) => ({
      method: "PUT",
      path: `/api/agents/${ids.agent}`,
      body: (text: string) => ({ [field]: text }),
      found: (answer: Read) => answer[field],
    })),
    {
      method: "PUT",
      path: `/api/agents/${ids.agent}`,
      body: (text) => ({ agent_metadata: { [`k${text}`]: [text] } }),
      found: ({ agent_metadata }) =>
        Object.entries(agent_metadata as Record<string, string[]>).map(
          ([name, [value]]) => name === `k${value}` && value,
        )[0],
    },
    ...["name", "description"].map((field) => ({
      method: "PUT",
      path: `/api/workflows/${ids.workflow}`,
      body: (text: string) => ({ [field]: text }),
      found: (answer: Read) => answer[field],
    })),
    {
      method: "PUT",
      path: `/api/v1/webhooks/${ids.webhook}`,
      body: (name) => ({ name }),
      found: ({ name }) => name,
    },
    { method: "PUT", path: talk, body: (title) => ({ title }), found: ({ title }) => title },
    {
      method: "PUT",
      path: talk,
      body: (text) => ({ metadata: { text } }),
      found: ({ metadata }) => (metadata as Read)["text"],
    },
    {
      method: "POST",
      path: "/api/keys",
      body: (name) => ({ name }),
      read: "/api/keys/",
      found: ({ name }) => name,
    },
    {
      method: "POST",
      path: `/api/workflows/${ids.workflow}/executions`,
      body: (text) => ({ metadata: { text }, input_data: { text }, response_type: "result" }),
      read: "/api/executions/",
      found: ({ metadata, input_data }) =>
        (metadata as Read)["text"] === (input_data as Read)["text"] && (metadata as Read)["text"],
    },
    {
      method: "POST",
      path: `/api/agents?${scope}`,
      body: (name) => ({ name }),
      read: "/api/agents/",
      found: ({ name }) => name,
    },
  ];
  for (const { method, path, body, read, found } of places) {
    for (const text of NAUGHTY.filter((_, n) => n % each_text === 0)) {
      const what = `${method} ${path} ${JSON.stringify(body(text))}`;
      const written = await timed(what, () => ask(method, path, body(text)));
      report.texts.sent++;
      if (written.status >= 500) report.odd.push(`${what}: ${written.status}`);
      if (written.status >= 400) {
        report.texts.refused++;
        continue;
      }
      const again = await ask("GET", read ? read + (written.json as { id: string }).id : path);
      const kept = again.status === 200 ? found(again.json as Read) : again.status;
      if (kept !== text) report.texts.changed.push(`${what} came back as ${JSON.stringify(kept)}`);
    }
  }
}

export const isClean = ({ odd, stalls, schemas, texts, ended }: Report): boolean =>
  odd.length + stalls.length + schemas.wrong.length + texts.changed.length === 0 && ended === undefined;

if (import.meta.main) {
  await script({
    name: "input",
    about:
      "Sends what no client should send; nothing may crash, answer 5xx, stand still or come back changed.",
    numbers: {
      raw: { help: "requests of mutated bytes", usually: 5_000 },
      walked: { help: "requests made of the interface's description", usually: 3_000 },
    },
    texts: {
      "json-corpus": "a folder of y_, n_ and i_ files (JSONTestSuite's test_parsing)",
      "schema-corpus": "a folder of a draft-07 suite (JSON-Schema-Test-Suite's tests/draft7)",
    },
    run: ({ number, text }, progress) =>
      sendEverything({
        raw: number("raw"),
        walked: number("walked"),
        each_text: 1,
        seed: number("seed"),
        jsonCorpus: text("json-corpus"),
        schemaCorpus: text("schema-corpus"),
        progress,
      }),
    isClean,
  });
}
