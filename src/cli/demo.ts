import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig, prefixOf } from "../config.ts";
import type { Services } from "../services.ts";
import { verifyDelivery } from "../webhooks/signature.ts";
import type { Call } from "./command.ts";
import { EXIT, ExitError } from "./exit.ts";
import { ask } from "./loopback.ts";

const PATIENCE_MS = 10_000;

type Received = { headers: Record<string, string | undefined>; body: string };

/**
 * Runs the whole loop once, by HTTP as a client would: an agent answers, a webhook starts a workflow, the
 * signed notification arrives and is verified. In a folder of its own, with the model that needs no network.
 */
export async function demo({ program, output }: Call): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), "errand-demo-"));
  // However it ends; and twice, since the writer thread may still be putting its files away.
  const discard = () => rmSync(data, { recursive: true, force: true });
  process.once("exit", discard);
  process.once("SIGINT", () => process.exit(EXIT.forced));
  const begun = performance.now();
  const tell = (text: string) =>
    output.data(`${String(Math.round(performance.now() - begun)).padStart(5)} ms  ${text}\n`);
  const receiver = await openReceiver();
  const { config } = loadConfig(
    {
      data,
      host: "127.0.0.1",
      port: "0",
      "allow-targets": "127.0.0.1",
      "log-level": "error",
      "default-model": "offline/errand",
    },
    {},
  );
  const app = await program.createApp(config);
  try {
    const { url, services } = await app.listen();
    config.public_url = url;
    tell(`Errand answers at ${url}, its data in ${data}`);
    await walk(services, { api: url + prefixOf(config), management: `${url}/api/v1`, receiver, tell });
  } finally {
    await app.stop();
    receiver.close();
    discard();
  }
  tell("done; nothing is left behind. Your own: errand serve");
}

type Stage = { api: string; management: string; receiver: Receiver; tell(text: string): void };

async function walk(
  { workspaces, keys }: Services,
  { api, management, receiver, tell }: Stage,
): Promise<void> {
  const scope = await workspaces.ensureDefault();
  const { key } = await keys.admin.create({ name: "demo", ...scope });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const post = async (url: string, body: object): Promise<Record<string, string>> => {
    const answer = await ask("POST", url, { headers, body: JSON.stringify(body), timeoutMs: PATIENCE_MS });
    if (answer.status >= 300)
      throw new ExitError(EXIT.failed, `POST ${url}: ${answer.status} ${answer.body}`);
    return JSON.parse(answer.body);
  };
  const inWorkspace = `?workspace_id=${scope.workspace_id}`;
  tell("a workspace, a project and an API key are made");

  const agent = await post(`${api}/agents${inWorkspace}`, { name: "Demo", system_prompt: "Be brief." });
  tell(`agent ${agent["id"]} is created`);
  const question = "Is anybody there?";
  const stream = await ask("POST", `${api}/agents/${agent["id"]}/stream`, {
    headers,
    body: JSON.stringify({ messages: [{ role: "user", content: question }] }),
    timeoutMs: PATIENCE_MS,
  });
  tell(`asked:    ${question}`);
  tell(`streamed: ${spokenText(stream.body).slice(0, 100)}…`);

  const workflow = await post(`${api}/workflows${inWorkspace}`, {
    name: "Greet",
    input_schema: { required: ["name"], properties: { name: { title: "Name", type: "string" } } },
    nodes: [
      {
        node_type_name: "set_variables",
        name: "greet",
        input_config: { variables: { greeting: "Hello {{ name }}" } },
      },
    ],
  });
  tell(`workflow ${workflow["id"]} is created`);
  const subscription = await post(`${management}/webhooks`, {
    name: "demo",
    url: receiver.url,
    events: ["workflow.execution.completed"],
  });
  tell(`subscription to workflow.execution.completed, delivered to ${receiver.url}`);
  const token = await post(`${api}/workflows/${workflow["id"]}/webhook-tokens`, {});

  const fired = performance.now();
  const accepted = await ask("POST", token["url"]!, {
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input_data: { name: "world" } }),
  });
  if (accepted.status !== 202)
    throw new ExitError(EXIT.failed, `the webhook: ${accepted.status} ${accepted.body}`);
  tell(`webhook accepted, and on disk: execution ${JSON.parse(accepted.body).execution_id}`);

  const delivery = await receiver.next();
  const took = (performance.now() - fired).toFixed(1);
  if (!verifyDelivery(subscription["secret"]!, delivery.headers, delivery.body, Date.now())) {
    throw new ExitError(EXIT.failed, "the delivery's signature does not verify");
  }
  const { event, data } = JSON.parse(delivery.body);
  tell(
    `delivery received ${took} ms after the webhook: ${event}, ${data.status}, ${JSON.stringify(data.output_data)}`,
  );
  tell("both signatures verified (X-Service-Signature, Standard Webhooks)");
}

/** The text of a v1 stream: the lines with prefix 0. */
const spokenText = (stream: string): string =>
  stream
    .split("\n")
    .filter((line) => line.startsWith("0:"))
    .map((line) => JSON.parse(line.slice(2)) as string)
    .join("");

type Receiver = { url: string; next(): Promise<Received>; close(): void };

async function openReceiver(): Promise<Receiver> {
  let arrived: (delivery: Received) => void = () => {};
  const first = new Promise<Received>((resolve) => {
    arrived = resolve;
  });
  const server = createServer((request: IncomingMessage, answer) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      answer.writeHead(204).end();
      arrived({
        headers: request.headers as Received["headers"],
        body: Buffer.concat(chunks).toString("utf8"),
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    next: () =>
      Promise.race([
        first,
        new Promise<never>((_, reject) => {
          const late = new ExitError(EXIT.failed, `no delivery arrived within ${PATIENCE_MS / 1_000} s`);
          setTimeout(() => reject(late), PATIENCE_MS).unref();
        }),
      ]),
    close: () => server.close(),
  };
}
