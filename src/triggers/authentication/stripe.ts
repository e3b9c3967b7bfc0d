import Type from "typebox";
import { isObject } from "../../lib/json.ts";
import { SIGNING_SECRET } from "./hmac.ts";
import {
  isSigned,
  MISSING,
  MOST_SIGNATURES,
  staleness,
  USUAL_TOLERANCE_SECONDS,
  WRONG,
} from "./signature.ts";
import { defineAuthentication } from "./type.ts";

export const stripe = defineAuthentication({
  type: "stripe",
  description: "Stripe-Signature, as Stripe signs its events.",
  fields: Type.Object({
    secret: Type.String({
      ...SIGNING_SECRET,
      description: "The endpoint's signing secret, whsec_... of Stripe.",
    }),
  }),
  secret: "secret",
  refusal({ headers, body }, { secrets, now }) {
    const header = headers.get("stripe-signature");
    if (header === null) return MISSING;
    let timestamp: string | undefined;
    const given: string[] = [];
    for (const item of header.split(",", 2 * MOST_SIGNATURES)) {
      const [scheme, value = ""] = item.trim().split("=", 2);
      if (scheme === "t") timestamp = value;
      else if (scheme === "v1" && given.length < MOST_SIGNATURES) given.push(value);
    }
    const stale = staleness(timestamp, now, USUAL_TOLERANCE_SECONDS);
    if (stale !== undefined) return stale;
    const parts = [`${timestamp}.`, body];
    return isSigned(given, secrets, { algorithm: "sha256", encoding: "hex", parts }) ? undefined : WRONG;
  },
  credentials: () => ["stripe-signature"],
  // Sent again, an event counts its pending webhooks anew: it is known by its id.
  senderKey(_, body) {
    const id = isObject(body) ? body["id"] : undefined;
    return typeof id === "string" && id !== "" ? { key: id, isWhole: true } : undefined;
  },
});
