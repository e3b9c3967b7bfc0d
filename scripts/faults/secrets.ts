/**
 * Plants a canary in every field that holds a secret, has every one of them used against servers that say
 * back all they are told, and then searches what the program has written and said: the database and its
 * journal row by row and byte by byte, backups, logs, every answer, the figures, the command line and what
 * it prints when it is killed. Each as it is, in base64, in hex and as a URL has it.
 */
import { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createKey, discard, type Errand, type Key, scratch, startErrand } from "../lib/errand.ts";
import { Canaries } from "./lib/canaries.ts";
import { echoMailServer, echoServer } from "./lib/echo.ts";
import { operationsOf } from "./lib/openapi.ts";
import { askWith, until } from "./lib/project.ts";
import { script } from "./lib/script.ts";

export type Report = {
  canaries: number;
  /** Secrets that arrived where they were to be used: without that, finding none would prove nothing. */
  used: string[];
  searched: Record<string, { places: number; bytes: number }>;
  hits: string[];
};

type Format = "json" | "pretty";
const MODEL_KEYS = ["OPENAI", "ANTHROPIC", "GEMINI", "GROQ", "MISTRAL", "DEEPSEEK", "OPENROUTER"];

// A refusal is an answer like another here.
const ONCE = { on_error: "continue", retry: { max_attempts: 1 } };

type Search = {
  canaries: Canaries;
  /** Looks at something that was written or said; `shown` are secrets that are to be seen there. */
  look(kind: string, place: string, content: Uint8Array | string, shown?: string[]): void;
};

export async function searchSecrets(options: {
  /** A life of the program for each; the last is ended by a crash. */
  formats: Format[];
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const data = scratch();
  const canaries = new Canaries();
  const report: Report = { canaries: 0, used: [], searched: {}, hits: [] };
  const look: Search["look"] = (kind, place, content, shown = []) => {
    report.searched[kind] ??= { places: 0, bytes: 0 };
    report.searched[kind].places++;
    report.searched[kind].bytes += content.length;
    for (const hit of canaries.in(content, shown)) report.hits.push(`${hit} in ${kind} ${place}`);
  };
  const echo = echoServer();
  const mail = await echoMailServer();
  const secret_key = randomBytes(32).toString("base64");
  canaries.note("secret_key", secret_key.slice(0, 40));
  const encoded = (name: string) => encodeURIComponent(canaries.make(name));
  const env: Record<string, string> = {
    ERRAND_ALLOW_TARGETS: "127.0.0.1",
    ERRAND_SECRET_KEY: secret_key,
    ERRAND_EGRESS_PROXY: `http://proxy:${encoded("egress_proxy")}@127.0.0.1:${echo.port}`,
    ERRAND_SMTP_URL: `smtp://mailer:${encoded("smtp_url")}@127.0.0.1:${mail.port}`,
    OPENAI_BASE_URL: `${echo.origin}/openai`,
    ANTHROPIC_BASE_URL: `${echo.origin}/anthropic`,
    ...Object.fromEntries(MODEL_KEYS.map((name) => [`${name}_API_KEY`, canaries.make(`${name}_API_KEY`)])),
  };
  let errand: Errand | undefined;
  try {
    const key = await createKey(data, env);
    canaries.note("API key", key.key.split("_")[2]!.slice(0, 30));
    for (const format of options.formats) {
      options.progress?.(`with logs as ${format}`);
      errand = await startErrand({ data, key, env, args: ["--log-level", "debug", "--log-format", format] });
      await useAll(errand, key, { canaries, look }, echo.origin, mail.port);
      for (const said of echo.heard)
        for (const [, token] of said.matchAll(/waits\/[\w-]+\?token=([\w-]+)/g))
          canaries.note(`wait ${token}`, token!);
      await readAll(errand, key, look);
      for (const name of filesOf(data)) look("files", name, readFileSync(join(data, name)));
      if (format !== options.formats.at(-1)) await errand.stop();
      else process.kill(errand.pid, "SIGSEGV");
      await errand.ended;
      await Bun.sleep(50);
      look("logs", format, errand.output());
    }
    for (const { table, text } of rowsOf(join(data, "errand.db"))) look("rows", table, text);
    for (const name of filesOf(data)) look("files", name, readFileSync(join(data, name)));
    report.canaries = canaries.count;
    report.used = canaries
      .in([...echo.heard, ...mail.heard].join("\n"))
      .map((hit) => hit.replace(/ as .*/, ""));
    return report;
  } finally {
    await errand?.kill().catch(() => {});
    echo.stop();
    mail.stop();
    discard(data);
  }
}

/** Stores a canary in every field for secrets and has it used. */
async function useAll(
  errand: Errand,
  key: Key,
  search: Search,
  origin: string,
  mailPort: number,
): Promise<void> {
  const { canaries, look } = search;
  const ask = askWith(errand.url, key.key);
  const scope = `workspace_id=${key.workspace_id}`;
  /** `shown`: the one field of the answer that may hold a new secret, by the name it is looked for under. */
  const send = async <T>(
    method: string,
    path: string,
    body?: unknown,
    shown?: [field: string, name: string],
  ) => {
    const answer = await ask(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    const json = answer.json as T & Record<string, string>;
    if (shown) canaries.note(shown[1], secretPart(json[shown[0]]!));
    look("answers", `${method} ${path}`, answer.text, shown ? [shown[1]] : []);
    return json;
  };
  const run = Math.random().toString(36).slice(2, 8);
  const make = (name: string) => canaries.make(`${name} ${run}`);

  await send("POST", "/api/keys", { name: "another" }, ["key", `another key ${run}`]);
  for (const [type, config] of Object.entries({
    bearer: { token: make("bearer connection") },
    basic: { username: "u", password: make("basic connection") },
    header: { header: "X-Api-Key", value: make("header connection") },
    smtp: { host: "127.0.0.1", port: mailPort, security: "auto" },
    model: { provider: "openai", api_key: make("model connection"), base_url: `${origin}/connected` },
  }))
    await send("POST", `/api/connections?${scope}`, { name: `${type}-${run}`, type, config });
  const held = { host: "127.0.0.1", port: mailPort, security: "starttls", username: "u" };
  const password = make("smtp connection");
  await send("POST", `/api/connections?${scope}`, {
    name: `mail-${run}`,
    type: "smtp",
    config: { ...held, password },
  });

  const node = (name: string, node_type_name: string, input_config: object) => ({
    name,
    node_type_name,
    input_config: node_type_name === "wait" ? input_config : { ...input_config, _options: ONCE },
  });
  const mailTo = { to: "ann@example.org", subject: "s", text: "t" };
  const ways = ["bearer", "basic", "header"];
  const calls = ways.flatMap((type) =>
    [200, 401].map((status) =>
      node(`${type}_${status}`, "api_call", {
        url: `${origin}/?status=${status}`,
        connection: `${type}-${run}`,
      }),
    ),
  );
  const rest = [
    node("own_model", "llm", { prompt: "Hi", model: "openai/x" }),
    node("other_model", "llm", { prompt: "Hi", model: "anthropic/x" }),
    node("connected_model", "llm", { prompt: "Hi", model: "openai/x", connection: `model-${run}` }),
    node("own_mail", "send_email", mailTo),
    node("connected_mail", "send_email", { ...mailTo, from: "a@example.org", connection: `mail-${run}` }),
    node("proxied", "api_call", { url: "http://receiver.example.com/" }),
    node("asks", "wait", {
      callback: {
        timeout_seconds: 1,
        nodes: [
          node("tell", "api_call", {
            method: "POST",
            url: `${origin}/`,
            body: { url: "{{ callback.url }}" },
          }),
        ],
      },
    }),
  ];
  for (const one of [...calls, ...rest]) {
    const { id } = await send<{ id: string }>("POST", `/api/workflows?${scope}`, {
      name: one.name,
      nodes: [one],
    });
    const hook = await send("POST", `/api/workflows/${id}/webhook-tokens`, {}, [
      "token",
      `token of ${one.name} ${run}`,
    ]);
    const webhook = `/webhooks/workflows/${id}`;
    const asked = await fetch(`${errand.url}${webhook}?token=${hook["token"]}&wait=10`, { method: "POST" });
    look("answers", webhook, await asked.text());
    const basic = Buffer.from(`any:${hook["token"]}`).toString("base64");
    const again = await fetch(errand.url + webhook, {
      method: "PUT",
      headers: { authorization: `Basic ${basic}` },
    });
    look("answers", webhook, await again.text());
  }

  const agent = await send("POST", `/api/agents?${scope}`, {
    name: "A",
    model: "openai/x",
    auto_generate_title: false,
  });
  const messages = [{ role: "user", content: "Hi" }];
  const said = await ask("POST", `/api/agents/${agent["id"]}/stream`, { id: "c", messages });
  look("answers", "stream", said.text);
  for (const [type, config] of Object.entries({
    bearer: { token: make("bearer of a trigger") },
    basic: { username: "u", password: make("basic of a trigger") },
    header: { name: "X-Key", value: make("header of a trigger") },
    hmac: { secret: make("hmac of a trigger") },
    github: { secret: make("github of a trigger") },
  })) {
    const body = { trigger_config: { auth_config: { type, ...config } } };
    const trigger = await ask("POST", `/api/agents/${agent["id"]}/triggers`, body);
    if (trigger.status !== 201) throw new Error(trigger.text);
    // What was given is not told again; what the program made is, once.
    look("answers", "POST trigger", trigger.text);
    const { id, trigger_config } = trigger.json as { id: string; trigger_config: { path: string } };
    const [credential] = Object.values(config).toReversed();
    for (const authorization of [
      `Bearer ${credential}`,
      `Basic ${Buffer.from(`u:${credential}`).toString("base64")}`,
    ]) {
      const headers = { authorization, "x-key": String(credential), "x-signature": "sha256=no" };
      const url = `${errand.url}/api/agents/webhook/${trigger_config.path}/trigger?token=${encodeURIComponent(String(credential))}`;
      look("answers", "trigger", await (await fetch(url, { method: "POST", headers, body: "{}" })).text());
    }
    const rotated = await ask("POST", `/api/agents/triggers/${id}/rotate-secret`, {
      secret: make(`new ${type} of a trigger`),
    });
    look("answers", "rotate trigger", rotated.text);
  }
  await send("POST", `/api/agents/${agent["id"]}/webhook-tokens`, {}, ["token", `agent's token ${run}`]);

  for (const authentication of [
    { type: "bearer", token: make("bearer of a webhook") },
    { type: "basic", username: "u", password: make("basic of a webhook") },
    { type: "header", name: "X-Key", value: make("header of a webhook") },
  ]) {
    for (const status of [200, 401, 302]) {
      const body = {
        url: `${origin}/?status=${status}`,
        events: ["workflow.execution.completed"],
        authentication,
        headers: { "X-Extra": make(`extra header ${authentication.type} ${status}`) },
      };
      const name = `signing secret ${authentication.type} ${status} ${run}`;
      const { id } = await send<{ id: string }>("POST", "/api/v1/webhooks", body, ["secret", name]);
      const at = `/api/v1/webhooks/${id}`;
      look("answers", "PUT webhook", (await ask("PUT", at, { name: "renamed" })).text);
      look("answers", "POST test", (await ask("POST", `${at}/test`, {})).text);
      const rotated = await ask("POST", `${at}/secret/rotate`);
      // It shows both secrets, which sign beside each other from now on.
      look("answers", "rotate", rotated.text, [name]);
      canaries.note(`new ${name}`, secretPart((rotated.json as { secret: string }).secret));
    }
  }
  const quiet = await send<{ id: string }>("POST", `/api/workflows?${scope}`, { name: "quiet", nodes: [] });
  await send("POST", `/api/workflows/${quiet.id}/executions`, {});
  await until(async () => {
    const { json } = await ask("GET", "/api/v1/webhooks?limit=1000");
    const { webhooks } = json as { webhooks: { last_delivery: string | null }[] };
    return webhooks.every(({ last_delivery }) => last_delivery !== null) || undefined;
  });

  // Credentials where they do not belong, which end up in refusals and logs.
  const wrong = make("wrong key");
  for (const path of [
    `/api/me?token=${encodeURIComponent(wrong)}`,
    `/api/me?access_token=${encodeURIComponent(wrong)}`,
  ]) {
    const response = await fetch(errand.url + path, { headers: { authorization: `Bearer ${wrong}` } });
    look("answers", path, await response.text());
  }
}

const secretPart = (secret: string): string =>
  secret.replace(/^[a-z]+_(\w{12}_(?=\w{20}))?/, "").slice(0, 30);

/** Every read that there is, of everything that there is, and the same by the command line. */
async function readAll(errand: Errand, key: Key, look: Search["look"]): Promise<void> {
  const ask = askWith(errand.url, key.key);
  const scope = `workspace_id=${key.workspace_id}&limit=1000`;
  const seen = new Map<string, string[]>();
  const read = async (path: string) => {
    const { text, json } = await ask("GET", path);
    look("answers", `GET ${path}`, text);
    const list = Array.isArray(json) ? json : Object.values(json ?? {}).find(Array.isArray);
    return ((list ?? []) as { id?: string }[]).flatMap(({ id }) => id ?? []);
  };
  const operations = (await operationsOf(errand)).filter(({ method }) => method === "GET");
  // Lists before what is in them: `/a` gives the ids of `/a/{id}`, and that those of `/a/{id}/b`.
  const inOrder = operations.toSorted(
    (a, b) => a.params.length - b.params.length || a.path.length - b.path.length,
  );
  for (const { path, params, policy } of inOrder) {
    // Shown on purpose, and streams that do not end.
    if (policy === "hook" || /secret$|stream/.test(path)) continue;
    const [base, last] = [path.slice(0, path.lastIndexOf("/{")), path.endsWith("}")];
    const parents =
      params.length === 0 ? [""] : params.length === 1 ? [""] : (seen.get(path.split("}")[0]!) ?? []);
    if (params.length === 0) {
      seen.set(path, await read(`${path}?${scope}`));
      continue;
    }
    const firsts = seen.get(path.slice(0, path.indexOf("/{"))) ?? [];
    for (const id of firsts.slice(-40)) {
      const first = path.replace(/\{\w+\}/, id);
      if (params.length === 1) seen.set(first, await read(`${first}?limit=1000`));
      else if (last && parents)
        for (const second of seen.get(base.replace(/\{\w+\}/, id)) ?? [])
          await read(first.replace(/\{\w+\}/, second));
    }
  }
  const logs = [...seen].filter(([path]) => path.endsWith("/logs"));
  for (const [path, ids] of logs)
    for (const id of ids) await read(path.replace("/logs", `/deliveries/${id}`));

  const id = (path: string) => seen.get(path)?.at(-1) ?? "none";
  const words = [
    ["config", "show"],
    ["config", "show", "--json", "--origin"],
    ["doctor"],
    ["keys", "list", "--json"],
    ["webhooks", "list", "--json"],
    ["webhooks", "show", id("/api/v1/webhooks"), "--json"],
    ["webhooks", "logs", id("/api/v1/webhooks"), "--json"],
    ["webhooks", "test", id("/api/v1/webhooks")],
    ["webhooks", "tokens", "list", "--json"],
    ["connections", "list", "--json"],
    ["connections", "show", id("/api/connections")],
    ["models"],
    ["runs", "list", "--json"],
    ["runs", "show", id("/api/executions")],
    ["runs", "logs", id("/api/executions")],
    ["workflows", "export", id("/api/workflows")],
    ["events", "show", id("/api/v1/events")],
    ["backup", "create"],
    ["backup", "create", "--json"],
  ];
  for (const each of words) {
    const { stdout, stderr } = await errand.command(...each);
    look("command line", each.join(" "), stdout + stderr);
  }
}

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));

/** Rows whole: in the file a long text lies in pieces. */
function rowsOf(path: string): { table: string; text: string }[] {
  const db = new Database(path, { readonly: true });
  const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const rows = tables.flatMap(({ name }) =>
    db
      .query<Record<string, unknown>, []>(`SELECT * FROM "${name}"`)
      .all()
      .map((row) => ({ table: name, text: Object.values(row).map(String).join("\n") })),
  );
  db.close();
  return rows;
}

export const isClean = (report: Report): boolean => report.hits.length === 0 && report.used.length > 20;

if (import.meta.main) {
  await script({
    name: "secrets",
    about:
      "Plants a canary in every secret field, has it used, and searches for it in all that was written and said.",
    run: (_, progress) => searchSecrets({ formats: ["json", "pretty"], progress }),
    isClean,
  });
}
