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
