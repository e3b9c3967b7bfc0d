import { invalidField } from "../lib/errors.ts";

/** What a form says: a name given several times has a list, a file is told of and not kept. */
export type FormValue = string | string[] | FormFile | (string | FormFile)[];
export type FormFile = { filename: string; type: string; size: number };

/** The fields of an urlencoded body. Throws invalid_input where its percent signs spell no UTF-8. */
export function parseUrlencoded(text: string): Record<string, FormValue> {
  checkEncoded("", text);
  return gather(new URLSearchParams(text), refuseFile);
}

/** Throws invalid_input of `field` where the percent signs spell no UTF-8. */
export function checkEncoded(field: string, text: string): void {
  // URLSearchParams would put U+FFFD for such bytes without a word.
  try {
    for (const [encoded] of text.matchAll(/(?:%[0-9a-f]{2})+/gi)) decodeURIComponent(encoded);
  } catch {
    throw invalidField(field, "UTF-8", "percent-encoded bytes that are not UTF-8");
  }
}

/**
 * The fields of a multipart body. A file is refused, or with `files` told of by name, type and size: its
 * bytes are nothing that a field could hold.
 */
export async function parseMultipart(
  bytes: Uint8Array,
  type: string,
  files: boolean,
): Promise<Record<string, FormValue>> {
  const form = await new Response(new Blob([bytes as Uint8Array<ArrayBuffer>]), {
    headers: { "content-type": type },
  })
    .formData()
    .catch(() => Promise.reject(invalidField("", "multipart/form-data", "another form")));
  return gather(form, files ? toldFile : refuseFile);
}

const toldFile = (_: string, { name, type, size }: File): FormFile => ({ filename: name, type, size });

function refuseFile(name: string): never {
  throw invalidField(name, "a text field", "a file");
}

function gather(
  fields: Iterable<[string, string | File]>,
  file: (name: string, file: File) => FormFile,
): Record<string, FormValue> {
  // A Map: a plain object takes quadratic time where a hostile form brings a hundred thousand names.
  const gathered = new Map<string, (string | FormFile)[]>();
  for (const [name, value] of fields) {
    if (name === "__proto__") throw invalidField("", "no field of that name", "__proto__");
    const values = gathered.get(name);
    const told = typeof value === "string" ? value : file(name, value);
    if (values) values.push(told);
    else gathered.set(name, [told]);
  }
  return Object.fromEntries(
    [...gathered].map(([name, values]) => [name, values.length === 1 ? values[0]! : values]),
  ) as Record<string, FormValue>;
}
