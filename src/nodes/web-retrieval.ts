import Type from "typebox";
import type { EgressAnswer } from "../egress/egress.ts";
import { LARGEST_HTML, readHtml } from "../lib/html.ts";
import { pageFields, readingFields } from "./extract-content.ts";
import { defineNode, NodeError } from "./node.ts";
import { checkStatus, mediaTypeOf, textOf, toNodeError } from "./outgoing.ts";

const DEFAULT_SECONDS = 30;
const MOST_REDIRECTS = 5;
const HTML = new Set(["text/html", "application/xhtml+xml", ""]);
// What is text without being called text.
const TEXTUAL = /^text\/|[/+](json|xml|yaml|javascript)$|^application\/(x-ndjson|sql|graphql|toml)$/;

export const webRetrieval = defineNode({
  name: "web_retrieval",
  title: "Web retrieval",
  description: "Fetches a page and reads it: its text as Markdown or plain, its title and its links.",
  effect: "idempotent",
  retries: { max_attempts: 3, delay_seconds: 2, backoff_multiplier: 2 },
  input: Type.Object(
    {
      url: Type.String({
        minLength: 1,
        maxLength: 2_048,
        description: "Address of the page, http or https.",
      }),
      ...readingFields,
      timeout_seconds: Type.Optional(
        Type.Number({ exclusiveMinimum: 0, maximum: 120, description: "For all of it; 30 unless given." }),
      ),
      max_characters: Type.Optional(
        Type.Integer({ minimum: 1, description: "Longest content; what is longer is cut." }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    url: Type.String({ description: "Where the page was found, after at most five redirects." }),
    status: Type.Integer({ description: "HTTP status." }),
    media_type: Type.String({ description: "What the server calls it, such as text/html." }),
    truncated: Type.Boolean({ description: "Whether something was cut off the page or its content." }),
    ...pageFields,
  }),
  async run(
    { url, format = "markdown", main_only, timeout_seconds, max_characters },
    { egress, hop, signal },
  ) {
    const answer = await egress
      .request({
        method: "GET",
        url,
        headers: {
          accept: "text/html,application/xhtml+xml,text/*;q=0.9,*/*;q=0.5",
          "accept-encoding": "gzip, br",
          "user-agent": "Errand (web_retrieval)",
          "x-service-hop": String(hop + 1),
        },
        timeoutMs: (timeout_seconds ?? DEFAULT_SECONDS) * 1_000,
        maxBytes: LARGEST_HTML,
        redirects: MOST_REDIRECTS,
        signal,
      })
      .catch((error) => {
        throw toNodeError(error);
      });
    checkStatus(answer);
    const media_type = mediaTypeOf(answer.headers);
    const page = readPage(answer, media_type, { format, mainOnly: main_only });
    const isLong = max_characters !== undefined && page.content.length > max_characters;
    if (isLong) page.content = page.content.slice(0, max_characters);
    const { status, truncated } = answer;
    return {
      external_calls: 1,
      output: { url: answer.url, status, media_type, truncated: truncated || isLong, ...page },
    };
  },
});

function readPage(
  answer: EgressAnswer,
  media_type: string,
  options: { format: "markdown" | "text"; mainOnly?: boolean },
) {
  if (HTML.has(media_type)) return readHtml(textOf(answer), { ...options, base: answer.url });
  if (!TEXTUAL.test(media_type)) {
    throw new NodeError(
      "NOT_A_PAGE",
      `The address holds ${media_type.slice(0, 100)}, which is no text; api_call can fetch it.`,
    );
  }
  return { title: null, description: null, content: textOf(answer).trim(), links: [] };
}
