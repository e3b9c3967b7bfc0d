import Type from "typebox";
import { bearerToken } from "../../http/authorization.ts";
import { randomToken, sameSecret } from "../../lib/secrets.ts";
import { defineAuthentication } from "./type.ts";

export const bearer = defineAuthentication({
  type: "bearer",
  description: "Authorization: Bearer <token>.",
  fields: Type.Object({
    token: Type.String({
      minLength: 1,
      maxLength: 512,
      pattern: "^[A-Za-z0-9._~+/-]+=*$",
      description: "One is made when none is given.",
    }),
  }),
  secret: "token",
  makeSecret: () => randomToken(32, "ett_"),
  refusal({ headers }, { secrets }) {
    const header = headers.get("authorization");
    if (header === null) return "the Authorization header is missing";
    const token = bearerToken(header);
    if (token === undefined) return "the Authorization header is not one Bearer token";
    return secrets.some((secret) => sameSecret(token, secret)) ? undefined : "the token is another one";
  },
  credentials: () => ["authorization"],
});
