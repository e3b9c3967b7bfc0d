import { randomBytes } from "node:crypto";
import Type from "typebox";
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

const PREFIX = "whsec_";
const BASE64 = /^(?=.)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

const encoded = (secret: string): string =>
  secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;

/** Standard Webhooks 1.0, and its elder form whose headers begin with svix-. */
const FORMS = ["webhook", "svix"];

const found = (headers: Headers, name: string): string | null => {
  const form = FORMS.find((one) => headers.has(`${one}-id`));
  return form === undefined ? null : headers.get(`${form}-${name}`);
};

export const standardWebhooks = defineAuthentication({
  type: "standard_webhooks",
  description: "webhook-id, webhook-timestamp and webhook-signature, as standardwebhooks.com has them.",
  fields: Type.Object({
    secret: Type.String({
      ...SIGNING_SECRET,
      description: "whsec_ and base64; one is made when none is given.",
    }),
  }),
  secret: "secret",
  makeSecret: () => PREFIX + randomBytes(32).toString("base64"),
  secretFault: (secret) =>
    BASE64.test(encoded(secret)) ? undefined : { expected: "whsec_ and base64", received: "another form" },
  refusal({ headers, body }, { secrets, now }) {
    const id = found(headers, "id");
    const timestamp = found(headers, "timestamp");
    const signatures = found(headers, "signature");
    if (id === null || signatures === null) return MISSING;
    const stale = staleness(timestamp, now, USUAL_TOLERANCE_SECONDS);
    if (stale !== undefined) return stale;
    const given = signatures
      .split(" ", MOST_SIGNATURES)
      .flatMap((one) => (one.startsWith("v1,") ? [one.slice("v1,".length)] : []));
    const keys = secrets.map((secret) => Buffer.from(encoded(secret), "base64"));
    const parts = [`${id}.${timestamp}.`, body];
    return isSigned(given, keys, { algorithm: "sha256", encoding: "base64", parts }) ? undefined : WRONG;
  },
  credentials: () => FORMS.map((form) => `${form}-signature`),
  senderKey(headers) {
    const id = found(headers, "id");
    return id === null ? undefined : { key: id, isWhole: false };
  },
});
