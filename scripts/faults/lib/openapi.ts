import type { Errand } from "../../lib/errand.ts";

/** What a walker of the interface needs of its description. */
export type Operation = {
  method: string;
  path: string;
  policy: "key" | "public" | "anonymous" | "hook";
  /** Names of what stands in the path and in the query. */
  params: string[];
  query: string[];
  /** The JSON Schema of a JSON body, where one is taken. */
  body: Schema | undefined;
  querySchemas: Record<string, Schema>;
};

export type Schema = { [keyword: string]: unknown };

type Described = {
  "x-policy": Operation["policy"];
  parameters?: { in: string; name: string; schema?: Schema }[];
  requestBody?: { content: Record<string, { schema?: Schema }> };
};

/** Every operation that the running program says it has. */
export async function operationsOf(errand: Pick<Errand, "api">): Promise<Operation[]> {
  const { body } = await errand.api<{ paths: Record<string, Record<string, Described>> }>(
    "GET",
    "/api/openapi.json",
  );
  return Object.entries(body.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const inQuery = (described.parameters ?? []).filter((one) => one.in === "query");
      return {
        method: method.toUpperCase(),
        path,
        policy: described["x-policy"],
        params: [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!),
        query: inQuery.map(({ name }) => name),
        body: described.requestBody?.content["application/json"]?.schema,
        querySchemas: Object.fromEntries(inQuery.map(({ name, schema }) => [name, schema ?? {}])),
      };
    }),
  );
}
