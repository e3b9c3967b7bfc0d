import Type from "typebox";
import { randomText, sameSecret } from "../../lib/secrets.ts";
import { defineAuthentication } from "./type.ts";

const BASIC = /^basic ((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/i;

export const basic = defineAuthentication({
  type: "basic",
  description: "Authorization: Basic, a user name and a password.",
  fields: Type.Object({
    username: Type.String({ minLength: 1, maxLength: 255, pattern: "^[^:\\x00-\\x1f\\x7f]+$" }),
    password: Type.String({
      minLength: 1,
      maxLength: 512,
      pattern: "^[^\\x00-\\x1f\\x7f]+$",
      description: "One is made when none is given.",
    }),
  }),
  secret: "password",
  makeSecret: () => randomText(32),
  refusal({ headers }, { config, secrets }) {
    const header = headers.get("authorization");
    if (header === null) return "the Authorization header is missing";
    const encoded = BASIC.exec(header)?.[1];
    if (encoded === undefined) return "the Authorization header is not Basic";
    const pair = Buffer.from(encoded, "base64").toString("utf8");
    const fits = secrets.some((secret) => sameSecret(pair, `${config["username"]}:${secret}`));
    return fits ? undefined : "the user name or the password is another one";
  },
  credentials: () => ["authorization"],
});
