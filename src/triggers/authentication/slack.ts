import Type from "typebox";
import { isObject } from "../../lib/json.ts";
import { SIGNING_SECRET } from "./hmac.ts";
import { isSigned, MISSING, staleness, USUAL_TOLERANCE_SECONDS, WRONG } from "./signature.ts";
import { defineAuthentication } from "./type.ts";

const PREFIX = "v0=";

export const slack = defineAuthentication({
  type: "slack",
  description: "X-Slack-Signature, as Slack signs events, commands and interactions; answers its challenge.",
  fields: Type.Object({
    secret: Type.String({ ...SIGNING_SECRET, description: "The app's signing secret." }),
  }),
  secret: "secret",
  refusal({ headers, body }, { secrets, now }) {
    const given = headers.get("x-slack-signature");
    if (given === null) return MISSING;
    const timestamp = headers.get("x-slack-request-timestamp");
    const stale = staleness(timestamp, now, USUAL_TOLERANCE_SECONDS);
    if (stale !== undefined) return stale;
    if (!given.startsWith(PREFIX)) return `the signature does not begin with ${PREFIX}`;
    const parts = [`v0:${timestamp}:`, body];
    const over = { algorithm: "sha256" as const, encoding: "hex" as const, parts };
    return isSigned([given.slice(PREFIX.length)], secrets, over) ? undefined : WRONG;
  },
  credentials: () => ["x-slack-signature"],
  senderKey(_, body) {
    const id = isObject(body) ? body["event_id"] : undefined;
    return typeof id === "string" && id !== "" ? { key: id, isWhole: true } : undefined;
  },
  challenge(body) {
    if (!isObject(body) || body["type"] !== "url_verification") return undefined;
    const { challenge } = body;
    return typeof challenge === "string" ? { challenge } : undefined;
  },
  // Slack's older way to be known: whoever reads it could pass for Slack elsewhere.
  withoutCredentials(body) {
    return isObject(body) && typeof body["token"] === "string" ? { ...body, token: "[removed]" } : body;
  },
});
