import type { StartAnswer, StartRequest } from "../executions/service.ts";
import { queryOf } from "../http/context.ts";
import { statusOf } from "../http/errors.ts";
import type { FormValue } from "../http/form.ts";
import type { Clock } from "../lib/clock.ts";
import { AppError, type Fault, invalidField, notFound } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { Admission } from "./admission.ts";
import type { Sent } from "./bodies.ts";
import { formOf, type InputSchema, inputOf, type Property } from "./form-input.ts";
import { type About, formPage, messagePage, pageResponse, resultPage } from "./form-page.ts";
import { hopOf } from "./idempotency.ts";
import type { Results } from "./results.ts";
import { CLAIM_MS } from "./store.ts";
import type { FindTarget, HookTarget } from "./tokens.ts";

// Short enough for a person who watches, and far below the idle limit of a connection.
const PATIENCE_SECONDS = 2;

export type Forms = ReturnType<typeof createForms>;

/**
 * The form page of a workflow: its inputs as a plain HTML form, for people who hold the token's address. What
 * it starts is an execution like any other; the same form sent twice is one.
 */
export function createForms<W extends HookTarget & { name: string }>(deps: {
  admission: Admission;
  workflows: FindTarget<W>;
  executions: { start(target: W, request: StartRequest): Promise<StartAnswer> };
  inputSchema(target: W): Promise<InputSchema>;
  results: Pick<Results, "read" | "wait">;
  clock: Clock;
}) {
  const { admission, workflows, executions, results, clock } = deps;

  async function opened(id: string, request: Request) {
    const target = await admission.target("workflows", id, request, workflows);
    const schema = await deps.inputSchema(target);
    const title = schema.title === "" || schema.title === "Untitled" ? target.name : schema.title;
    return { target, schema, about: { title, description: schema.description } };
  }

  async function result(id: string, execution_id: string, about: About, request: Request): Promise<Response> {
    let found = await results.read("workflows", execution_id);
    if (found?.target_id !== id) throw notFound("execution", execution_id);
    if (!found.hasEnded && !found.answer) {
      found = (await results.wait("workflows", execution_id, PATIENCE_SECONDS, request.signal)) ?? found;
    }
    return pageResponse(resultPage(about, found, addressOf(request)));
  }

  return {
    /** The empty form, or with `execution` in the query what came of one that was sent. */
    show: (id: string, request: Request): Promise<Response> =>
      forPeople(async () => {
        const { schema, about } = await opened(id, request);
        const execution_id = new URLSearchParams(queryOf(request.url)).get("execution");
        if (execution_id !== null) return result(id, execution_id, about, request);
        const action = addressOf(request, { once: crypto.randomUUID() });
        return pageResponse(formPage(about, schema, { action, faults: [] }));
      }),

    /** Starts the run and leads to its result; or shows the form again, as it was sent, with its faults. */
    send: (id: string, request: Request, sent: Sent): Promise<Response> =>
      forPeople(async () => {
        const { target, schema, about } = await opened(id, request);
        admission.count(id);
        if (sent.kind === "json") throw new AppError("unsupported_media_type", "This address takes forms.");
        const given = (sent.body ?? {}) as Record<string, FormValue>;
        const { input, faults } = inputOf(schema, withUnchecked(schema, given));
        const once = new URLSearchParams(queryOf(request.url)).get("once") ?? crypto.randomUUID();
        if (!isUuid(once)) throw invalidField("once", "a UUID", "another form");
        const again = (found: Fault[]) => {
          const action = addressOf(request, { once });
          return pageResponse(formPage(about, schema, { action, given, faults: found }), 400);
        };
        if (faults.length > 0) return again(faults);
        const request_hash = sha256Hex(sent.raw);
        const start: StartRequest = {
          input,
          source: "form",
          metadata: {},
          hop: hopOf(request.headers),
          // Sent twice as it is, a form is one run; sent again with other words, as by going back, another.
          idempotency: {
            scope: `hooks/form/${id}`,
            key: `${once}/${request_hash}`,
            request_hash,
            expires_at: clock.now() + CLAIM_MS,
          },
          answer: ({ execution_id }) => ({ status: 303, body: { execution_id } }),
        };
        try {
          const { body } = await executions.start(target, start);
          const location = addressOf(request, { execution: String(body["execution_id"]) });
          return new Response(null, { status: 303, headers: { location } });
        } catch (error) {
          if (error instanceof AppError && error.code === "invalid_input")
            return again(error.extra.faults ?? []);
          throw error;
        }
      }),
  };
}

/** This page's own address with the same token and something more, relative to itself. */
function addressOf(request: Request, more: Record<string, string> = {}): string {
  const query = new URLSearchParams();
  for (const token of new URLSearchParams(queryOf(request.url)).getAll("token")) query.append("token", token);
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  return `?${query}`;
}

/** A box that is not checked sends nothing, and means no. */
function withUnchecked({ properties }: InputSchema, given: Record<string, FormValue>) {
  const unchecked = Object.keys(properties).filter(
    (name) => formOf(properties[name] as Property) === "boolean" && !Object.hasOwn(given, name),
  );
  return { ...given, ...Object.fromEntries(unchecked.map((name) => [name, "false"])) };
}

/** Whoever looks at this is a person: a refusal is a page too. */
const forPeople = (answer: () => Promise<Response>): Promise<Response> =>
  answer().catch((error: unknown) => {
    if (!(error instanceof AppError)) throw error;
    const { title, words } = WORDS[error.code] ?? { title: "This did not work", words: error.message };
    return pageResponse(messagePage(title, words), statusOf(error.code), error.extra.headers);
  });

const WORDS: Partial<Record<AppError["code"], { title: string; words: string }>> = {
  unauthorized: {
    title: "This address does not open anything",
    words: "It may be cut short, or its token has ended. Ask whoever gave it to you for a new one.",
  },
  rate_limited: {
    title: "Too many at once",
    words: "This form was sent too often in the last minute. Go back and send it again in a while.",
  },
  not_found: { title: "There is no such run", words: "Its result may have been removed." },
};
