type Set = { status?: number | string; headers: Record<string, string | number> };

/** 201 with the record that was made. */
export function created<T>(set: Set, value: T): T {
  set.status = 201;
  return value;
}

/** 202 with what was queued. */
export function accepted<T>(set: Set, value: T): T {
  set.status = 202;
  return value;
}

/** 204: done, nothing to show. Takes the verb's empty answer, so that a handler stays one line. */
export function noContent(set: Set, _done?: unknown): undefined {
  set.status = 204;
}

/** An answer whose status was decided where the work was accepted; a repeated one says so in a header. */
export function answerWith<T>(
  set: Set,
  answer: { status: number; body: T; replayed?: boolean } | Response,
): T | Response {
  if (answer instanceof Response) return answer;
  set.status = answer.status;
  if (answer.replayed) set.headers["idempotent-replay"] = "true";
  return answer.body;
}

/** JSON to be kept as a file; the name is made of plain letters, since it goes into a header. */
export function download<T>(set: Set, { name, content }: { name: string; content: T }): T {
  set.headers["content-disposition"] = `attachment; filename="${name}"`;
  return content;
}

/** What an answer holds: a media type, with the schema of what stands in it. */
type Content = Record<string, { schema?: object }>;

const TEXT = { type: "string" };
/** An answer that is JSON of a shape. */
export const jsonOf = (schema: object): Content => ({ "application/json": { schema } });
/** An answer that is text of one of these media types. */
export const textOf = (...types: string[]): Content =>
  Object.fromEntries(types.map((type) => [type, { schema: TEXT }]));

/** For the description of a route whose handler chooses the status itself or answers other than with JSON. */
export const responses = (
  byStatus: Record<number, { description: string; content?: Content; headers?: string[] }>,
) => ({
  responses: Object.fromEntries(
    Object.entries(byStatus).map(([status, { headers, ...answer }]) => [
      status,
      {
        ...answer,
        ...(headers ? { headers: Object.fromEntries(headers.map((name) => [name, { schema: TEXT }])) } : {}),
      },
    ]),
  ) as Record<string, { description: string }>,
});
