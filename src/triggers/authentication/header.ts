import Type from "typebox";
import { randomToken, sameSecret } from "../../lib/secrets.ts";
import { defineAuthentication } from "./type.ts";

/** A header that a sender may set to whatever it likes. */
export const headerName = (description: string, usual?: string) =>
  Type.String({
    minLength: 1,
    maxLength: 100,
    pattern:
      "^(?!(?:[Hh]ost|[Cc]ontent-[Ll]ength|[Cc]ontent-[Tt]ype|[Tt]ransfer-[Ee]ncoding|[Cc]onnection)$)[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
    description,
    ...(usual === undefined ? {} : { default: usual }),
  });

export const header = defineAuthentication({
  type: "header",
  description: "A header with a fixed value, such as X-Api-Key.",
  fields: Type.Object({
    name: headerName("Which header."),
    value: Type.String({
      minLength: 1,
      maxLength: 1_024,
      pattern: "^[!-~](?:[ -~]*[!-~])?$",
      description: "One is made when none is given.",
    }),
  }),
  secret: "value",
  makeSecret: () => randomToken(32, "ett_"),
  refusal({ headers }, { config, secrets }) {
    const given = headers.get(String(config["name"]));
    if (given === null) return `the header ${config["name"]} is missing`;
    return secrets.some((secret) => sameSecret(given, secret))
      ? undefined
      : `the header ${config["name"]} has another value`;
  },
  credentials: (config) => [String(config["name"]).toLowerCase()],
});
