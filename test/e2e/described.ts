import Schema from "typebox/schema";

type Content = Record<string, { schema?: object }>;
type Operation = { responses: Record<string, { content?: Content }> };
type Document = { paths: Record<string, Record<string, Operation>> };

/**
 * Holds answers to what the interface says of itself: throws where a good answer's JSON is not as described,
 * lacks a field or has one that is not described.
 */
export function describedBy(document: Document) {
  const checks = new Map<object, ReturnType<typeof Schema.Compile>>();
  const paths = Object.keys(document.paths).map((template) => ({
    template,
    pattern: new RegExp(`^${template.replace(/\{[^}]+\}/g, "[^/]+")}$`),
    parameters: template.split("{").length,
  }));
  // A fixed segment goes before a parameter.
  paths.sort((a, b) => a.parameters - b.parameters);

  return (method: string, path: string, status: number, body: unknown): void => {
    if (status < 200 || status > 299 || body === undefined) return;
    const bare = path.split("?")[0]!.replace(/(.)\/$/, "$1");
    const found = paths.find(
      ({ pattern, template }) => pattern.test(bare) && document.paths[template]![method.toLowerCase()],
    );
    const operation = found && document.paths[found.template]![method.toLowerCase()];
    const schema = operation?.responses[status]?.content?.["application/json"]?.schema;
    if (!schema) throw new Error(`${method} ${bare}: no answer of status ${status} is described`);
    let check = checks.get(schema);
    if (!check) {
      check = Schema.Compile(closed(schema) as never);
      checks.set(schema, check);
    }
    if (check.Check(body)) return;
    const [, errors] = check.Errors(body);
    throw new Error(
      `${method} ${bare}: the answer is not as described: ${JSON.stringify(errors.slice(0, 5))}`,
    );
  };
}

/** What has named fields has no others. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== "object" || schema === null) return schema;
  const inside = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isOpen = !("properties" in schema) || "additionalProperties" in schema;
  return isOpen ? inside : { ...inside, additionalProperties: false };
}
