import Type from "typebox";
import { randomText } from "../../lib/secrets.ts";
import { SIGNING_SECRET } from "./hmac.ts";
import { isSigned, MISSING, WRONG } from "./signature.ts";
import { defineAuthentication } from "./type.ts";

const PREFIX = "sha256=";

export const github = defineAuthentication({
  type: "github",
  description: "X-Hub-Signature-256, as GitHub signs its webhooks.",
  fields: Type.Object({
    secret: Type.String({
      ...SIGNING_SECRET,
      description: "The webhook's secret at GitHub; one is made when none is given.",
    }),
  }),
  secret: "secret",
  makeSecret: () => randomText(43),
  refusal({ headers, body }, { secrets }) {
    const given = headers.get("x-hub-signature-256");
    if (given === null) return MISSING;
    if (!given.startsWith(PREFIX)) return `the signature does not begin with ${PREFIX}`;
    const over = { algorithm: "sha256" as const, encoding: "hex" as const, parts: [body] };
    return isSigned([given.slice(PREFIX.length)], secrets, over) ? undefined : WRONG;
  },
  credentials: () => ["x-hub-signature-256", "x-hub-signature"],
  senderKey(headers) {
    const key = headers.get("x-github-delivery");
    return key === null ? undefined : { key, isWhole: false };
  },
});
