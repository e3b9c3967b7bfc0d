import { createHash } from "node:crypto";
import type { FormValue } from "../http/form.ts";
import type { Fault } from "../lib/errors.ts";
import { LARGEST_HTML, readHtml } from "../lib/html.ts";
import { isObject, type Json } from "../lib/json.ts";
import { choiceText, formOf, type InputSchema, type Property, typeOf } from "./form-input.ts";
import { STYLE } from "./form-style.ts";
import { html, type Markup } from "./markup.ts";
import type { OwnAnswer } from "./own-answer.ts";
import type { Result } from "./results.ts";

/** What an input has been given so far: the text of its field. */
export type Given = Record<string, FormValue>;

export type About = { title: string; description: string };

// Nothing but this one style sheet may act on the page, nothing may frame it, and it may send itself nowhere else.
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join("; ");

export function pageResponse(page: Markup, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(page.text, {
    status,
    headers: { ...headers, "content-type": "text/html; charset=utf-8", "content-security-policy": POLICY },
  });
}

const whole = (title: string, body: Markup, head?: Markup): Markup => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
${head}<title>${title}</title>
<style>${STYLE_MARKUP}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`;
const STYLE_MARKUP = html([STYLE] as unknown as TemplateStringsArray);

/** A page that only says something. */
export const messagePage = (title: string, words: string): Markup =>
  whole(title, html`<h1>${title}</h1>\n<p>${words}</p>`);

/** The inputs of a workflow as a form; `action` is where it sends itself. Faults stand beside their fields. */
export function formPage(
  { title, description }: About,
  schema: InputSchema,
  { action, given, faults }: { action: string; given?: Given; faults: Fault[] },
): Markup {
  const fields = fieldsOf(schema);
  const told = placed(faults, fields);
  return whole(
    faults.length > 0 ? `Please check: ${title}` : title,
    html`<h1>${title}</h1>
${description !== "" && html`<p>${description}</p>`}
${faults.length > 0 && faultList(told, fields)}
<form method="post" action="${action}">
${fields.map((field, at) => fieldMarkup(field, `f${at}`, textOf(field, given), told.get(field.name) ?? []))}
<button type="submit">Start</button>
</form>`,
  );
}

type Field = { name: string; property: Property; required: boolean; label: string };

function fieldsOf({ properties, required }: InputSchema): Field[] {
  const order = ({ ui_metadata }: Property) => Number(ui_metadata?.order ?? 0);
  return Object.entries(properties)
    .map(([name, property]) => ({
      name,
      property: property as Property,
      required: required.includes(name),
      label: String(property.title || name),
    }))
    .sort((a, b) => order(a.property) - order(b.property));
}

/** Faults by the input they belong to, under "" those that belong to none. */
function placed(faults: Fault[], fields: Field[]): Map<string, Fault[]> {
  const told = new Map<string, Fault[]>();
  for (const fault of faults) {
    const path = fault.field.replace(/^input_data\.?/, "");
    const within = ({ name }: Field) => path === name || path.startsWith(`${name}.`);
    // An input's name may hold dots: the longest that fits.
    const field = fields.filter(within).sort((a, b) => b.name.length - a.name.length)[0];
    const name = field?.name ?? "";
    told.set(name, [
      ...(told.get(name) ?? []),
      { ...fault, field: path.slice(name.length).replace(/^\./, "") },
    ]);
  }
  return told;
}

const wordsOf = ({ field, expected, received }: Fault): string =>
  received === "nothing" && field === ""
    ? "This is needed."
    : `${field === "" ? "" : `${field}: `}expected ${expected}, received ${received}.`;

const faultList = (
  told: Map<string, Fault[]>,
  fields: Field[],
): Markup => html`<div class="card faults" role="alert">
<h2>Nothing was started yet</h2>
<ul>
${fields.flatMap(({ name, label }, at) =>
  (told.get(name) ?? []).map((fault) => html`<li><a href="#f${at}">${label}</a>: ${wordsOf(fault)}</li>\n`),
)}${(told.get("") ?? []).map((fault) => html`<li>${wordsOf(fault)}</li>\n`)}</ul>
</div>`;

/** The text that a field starts with: what was sent, else the schema's default. */
function textOf({ name, property }: Field, given: Given | undefined): string | undefined {
  if (given) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    return Array.isArray(value) ? String(value.at(-1)) : (value as string | undefined);
  }
  const usual = (property["default"] ?? property.ui_metadata?.value) as Json | undefined;
  if (usual === undefined || usual === null) return undefined;
  return formOf(property) === "json" ? JSON.stringify(usual, null, 2) : choiceText(usual);
}

function fieldMarkup(field: Field, id: string, text: string | undefined, faults: Fault[]): Markup {
  const { label, property, required } = field;
  const hint = property.description || undefined;
  const described = [hint && `${id}-hint`, faults.length > 0 && `${id}-fault`].filter(Boolean).join(" ");
  const attributes = html`id="${id}" name="${field.name}"${
    described !== "" && html` aria-describedby="${described}"`
  }${faults.length > 0 && html` aria-invalid="true"`}`;
  const hintMarkup = hint && html`<p class="hint" id="${id}-hint">${hint}</p>\n`;
  const faultMarkup = faults.map((fault) => html`${wordsOf(fault)} `);
  const below = faults.length > 0 && html`<p class="fault" id="${id}-fault">${faultMarkup}</p>\n`;
  if (formOf(property) === "boolean") {
    const isChecked = text !== undefined && /^(true|on|yes|1)$/i.test(text);
    return html`<div class="field check">
<input type="checkbox" ${attributes} value="true"${isChecked && html` checked`}><label for="${id}">${label}</label>
${hintMarkup}${below}</div>
`;
  }
  const need = required && html` <span class="required">(required)</span>`;
  return html`<div class="field">
<label for="${id}">${label}${need}</label>
${hintMarkup}${control(field, attributes, text ?? "")}
${below}</div>
`;
}

function control({ property, required }: Field, attributes: Markup, text: string): Markup {
  const needed = required && html` required`;
  switch (formOf(property)) {
    case "choice":
      return select(property["enum"] as Json[], html`${attributes}${needed}`, text);
    case "json":
      return html`<textarea ${attributes}${needed} class="json" rows="5" spellcheck="false" placeholder="${
        typeOf(property) === "array" ? "[ ]" : "{ }"
      }">\n${text}</textarea>`;
    case "number": {
      const step = typeOf(property) === "integer" ? "1" : "any";
      const limits = html`${limit("min", property["minimum"])}${limit("max", property["maximum"])}`;
      return html`<input type="number" step="${step}" ${attributes}${needed}${limits} value="${text}">`;
    }
    default: {
      const limits = html`${limit("minlength", property["minLength"])}${limit("maxlength", property["maxLength"])}`;
      if (isLong(property, text)) {
        // A line break behind the tag is not part of the text; one in front of it is kept that way.
        return html`<textarea ${attributes}${needed}${limits} rows="5">\n${text}</textarea>`;
      }
      const type = INPUT_TYPES[String(property["format"])] ?? "text";
      return html`<input type="${type}" ${attributes}${needed}${limits} value="${text}">`;
    }
  }
}

const INPUT_TYPES: Record<string, string> = { email: "email", uri: "url", url: "url", date: "date" };

const limit = (name: string, value: unknown) =>
  typeof value === "number" && Number.isFinite(value) && html` ${name}="${value}"`;

const isLong = ({ ui_metadata, ...property }: Property, text: string): boolean =>
  /textarea|long|multi|markdown/i.test(String(ui_metadata?.type)) ||
  Number(property["maxLength"]) > 200 ||
  text.includes("\n");

const select = (values: Json[], attributes: Markup, text: string): Markup => html`<select ${attributes}>
<option value="">Choose…</option>
${values.map((value) => {
  const option = choiceText(value);
  return html`<option value="${option}"${option === text && html` selected`}>${option}</option>\n`;
})}</select>`;

const WORDS: Record<string, string> = {
  queued: "Waiting to begin",
  running: "Running",
  waiting: "Waiting",
  success: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

const MOST_SHOWN = 100_000;

/**
 * How a run stands; the page asks again by itself until it has ended. What the workflow says itself to whoever
 * waits for it stands in the place of its output, from the moment it is said.
 */
export function resultPage({ title }: About, { body, hasEnded, answer }: Result, again: string): Markup {
  const { status, execution_id, output_data, error } = body;
  const words = WORDS[status] ?? status;
  const said = answer && answer.body !== null ? wordsOfAnswer(answer) : undefined;
  const failure = isObject(error) ? String(error["message"] ?? error["code"]) : undefined;
  return whole(
    `${words}: ${title}`,
    html`<h1>${title}</h1>
<div class="card" role="status">
<h2 class="${status}">${words}</h2>
${!hasEnded && html`<p>This page shows the result as soon as it is there.</p>`}
${failure !== undefined && html`<p>${failure}</p>`}
${said !== undefined && outputMarkup(said)}
${hasEnded && failure === undefined && said === undefined && outputMarkup(output_data as Json)}
</div>
<footer>Run ${execution_id}${hasEnded && html` · <a href="${again}">Start another</a>`}</footer>`,
    hasEnded ? undefined : html`<meta http-equiv="refresh" content="1">\n`,
  );
}

// A page's words and not the page: its author is not the one whom this address belongs to.
function wordsOfAnswer({ headers, body }: OwnAnswer): Json {
  const isPage = /^text\/html\b/i.test(headers["content-type"] ?? "");
  return isPage && typeof body === "string" && body.length <= LARGEST_HTML
    ? readHtml(body, { format: "text" }).content
    : body;
}

function outputMarkup(output: Json): Markup {
  if (output === null || output === undefined) return html`<p>There is no output.</p>`;
  if (!isObject(output)) return valueMarkup(output);
  return html`<dl>
${Object.entries(output).map(([name, value]) => html`<dt>${name}</dt><dd>${valueMarkup(value as Json)}</dd>\n`)}</dl>`;
}

function valueMarkup(value: Json): Markup {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length} characters)` : text;
  return typeof value === "object" ? html`<pre>${shown}</pre>` : html`${shown}`;
}
