import Type from "typebox";
import { randomToken } from "../../lib/secrets.ts";
import { headerName } from "./header.ts";
import {
  type Algorithm,
  type Encoding,
  isSigned,
  MISSING,
  staleness,
  USUAL_TOLERANCE_SECONDS,
  WRONG,
} from "./signature.ts";
import { defineAuthentication } from "./type.ts";

const ALGORITHMS: Algorithm[] = ["sha1", "sha256", "sha512"];
const ENCODINGS: Encoding[] = ["hex", "base64"];

export const SIGNING_SECRET = {
  minLength: 1,
  maxLength: 512,
  pattern: "^[ -~]+$",
} as const;

type Config = {
  header: string;
  algorithm: Algorithm;
  encoding: Encoding;
  prefix: string;
  timestamp_header?: string;
  tolerance_seconds: number;
};

export const hmac = defineAuthentication({
  type: "hmac",
  description: "An HMAC of the body, or with timestamp_header of the time, a dot and the body.",
  fields: Type.Object({
    header: headerName("Carries the signature.", "X-Signature"),
    algorithm: Type.Enum(ALGORITHMS, { default: "sha256" }),
    encoding: Type.Enum(ENCODINGS, { default: "hex" }),
    prefix: Type.String({
      maxLength: 50,
      pattern: "^[ -~]*$",
      default: "",
      description: "Stands in front of it, such as sha256=.",
    }),
    timestamp_header: Type.Optional(headerName("Carries the time of signing in epoch seconds.")),
    tolerance_seconds: Type.Integer({
      minimum: 1,
      maximum: 86_400,
      default: USUAL_TOLERANCE_SECONDS,
      description: "How far that time may be off.",
    }),
    secret: Type.String({ ...SIGNING_SECRET, description: "One is made when none is given." }),
  }),
  secret: "secret",
  makeSecret: () => randomToken(32, "ets_"),
  refusal({ headers, body }, { config, secrets, now }) {
    const { header, algorithm, encoding, prefix, timestamp_header, tolerance_seconds } = config as Config;
    const given = headers.get(header);
    if (given === null) return MISSING;
    if (!given.startsWith(prefix)) return `the signature does not begin with ${prefix}`;
    let head = "";
    if (timestamp_header !== undefined) {
      const timestamp = headers.get(timestamp_header);
      const stale = staleness(timestamp, now, tolerance_seconds);
      if (stale !== undefined) return stale;
      head = `${timestamp}.`;
    }
    const over = { algorithm, encoding, parts: [head, body] };
    return isSigned([given.slice(prefix.length)], secrets, over) ? undefined : WRONG;
  },
  credentials: (config) => [String(config["header"]).toLowerCase()],
});
