import Type from "typebox";
import { SIGNING_SECRET } from "./hmac.ts";
import { isSigned, MISSING, WRONG } from "./signature.ts";
import { defineAuthentication } from "./type.ts";

export const shopify = defineAuthentication({
  type: "shopify",
  description: "X-Shopify-Hmac-Sha256, as Shopify signs its webhooks.",
  fields: Type.Object({
    secret: Type.String({ ...SIGNING_SECRET, description: "The app's client secret, or the shop's own." }),
  }),
  secret: "secret",
  refusal({ headers, body }, { secrets }) {
    const given = headers.get("x-shopify-hmac-sha256");
    if (given === null) return MISSING;
    const over = { algorithm: "sha256" as const, encoding: "base64" as const, parts: [body] };
    return isSigned([given], secrets, over) ? undefined : WRONG;
  },
  credentials: () => ["x-shopify-hmac-sha256"],
  senderKey(headers) {
    const key = headers.get("x-shopify-webhook-id");
    return key === null ? undefined : { key, isWhole: false };
  },
});
