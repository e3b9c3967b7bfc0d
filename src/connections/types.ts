import Type, { type Static, type TObject } from "typebox";
import { SHORTEST_SECRET } from "../lib/conceal.ts";
import { describe, type Fault } from "../lib/errors.ts";
import { ADDRESS, addressIn } from "../lib/mail-address.ts";
import { authenticationFaults } from "../webhooks/authentication.ts";

// What a server says back of it is taken out of what is kept: see `conceal`.
const secret = (description: string, minLength = SHORTEST_SECRET) =>
  Type.String({ minLength, maxLength: 8_192, description: `${description} Never shown again.` });
const closed = { additionalProperties: false } as const;

const hosts = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 255, pattern: "^[a-z0-9.:-]+$" }), {
    maxItems: 50,
    description:
      "Hosts it may be sent to, such as api.example.org, or .example.org for all below; any unless given.",
  }),
);

/** What a connection of each type holds; `secret` names the fields that nobody reads again. */
export const CONNECTION_TYPES = {
  bearer: {
    title: "Bearer token",
    secret: ["token"],
    fields: Type.Object({ token: secret("Sent as Authorization: Bearer."), hosts }, closed),
  },
  basic: {
    title: "User name and password",
    secret: ["password"],
    fields: Type.Object(
      {
        username: Type.String({ minLength: 1, maxLength: 1_024, description: "User name." }),
        password: secret("Password."),
        hosts,
      },
      closed,
    ),
  },
  header: {
    title: "Header",
    secret: ["value"],
    fields: Type.Object(
      {
        header: Type.String({ minLength: 1, maxLength: 100, description: "Its name, such as X-Api-Key." }),
        value: secret("What stands in it."),
        hosts,
      },
      closed,
    ),
  },
  smtp: {
    title: "Mail server",
    secret: ["password"],
    fields: Type.Object(
      {
        host: Type.String({ minLength: 1, maxLength: 255, description: "Mail server, by name or address." }),
        port: Type.Optional(
          Type.Integer({ minimum: 1, maximum: 65_535, description: "465 with security tls, else 587." }),
        ),
        security: Type.Optional(
          Type.Enum(["tls", "starttls", "auto"], {
            description:
              "tls from the first byte, starttls before anything else (usual), or auto: where offered.",
          }),
        ),
        username: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024, description: "User name." })),
        // Nothing that a mail server says is kept word by word.
        password: Type.Optional(secret("Password.", 1)),
        from: Type.Optional(
          Type.String({ minLength: 1, maxLength: 320, description: "Sender of mails that name none." }),
        ),
      },
      closed,
    ),
  },
  model: {
    title: "Key of a model provider",
    secret: ["api_key"],
    fields: Type.Object(
      {
        provider: Type.String({
          pattern: "^[a-z0-9_-]{1,40}$",
          description: "Provider that the key is for, such as openai.",
        }),
        api_key: secret("Key."),
        base_url: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 2_048,
            description: "Server, if it is not the provider's own.",
          }),
        ),
      },
      closed,
    ),
  },
} satisfies Record<string, { title: string; secret: string[]; fields: TObject }>;

export type ConnectionType = keyof typeof CONNECTION_TYPES;
export const TYPE_NAMES = Object.keys(CONNECTION_TYPES) as ConnectionType[];

type Fields = { [T in ConnectionType]: Static<(typeof CONNECTION_TYPES)[T]["fields"]> };
/** A connection with its secrets, as nodes use it; it goes no further than the request it is for. */
export type OpenConnection = {
  [T in ConnectionType]: { type: T; id: string; name: string } & Fields[T];
}[ConnectionType];

/** What the schemas cannot say. */
export function fieldFaults(type: ConnectionType, fields: Record<string, unknown>): Fault[] {
  if (type === "smtp") return smtpFaults(fields);
  if (type === "model") return [];
  const { hosts: _, header: name, ...given } = fields;
  return authenticationFaults({ type, ...given, ...(name === undefined ? {} : { name }) }).map((fault) => ({
    ...fault,
    field: fault.field
      .replace(/^authentication\.name$/, "config.header")
      .replace(/^authentication/, "config"),
  }));
}

function smtpFaults({ host, username, password, from, security }: Record<string, unknown>): Fault[] {
  const faults: Fault[] = [];
  if (!/^[a-z0-9._:-]+$/i.test(String(host))) {
    faults.push({ field: "config.host", expected: "a host name or address", received: describe(host) });
  }
  if ((username === undefined) !== (password === undefined)) {
    const missing = username === undefined ? "username" : "password";
    faults.push({
      field: `config.${missing}`,
      expected: "user name and password, or neither",
      received: "nothing",
    });
  }
  if (username !== undefined && security === "auto") {
    faults.push({
      field: "config.security",
      expected: "tls or starttls where there is a password",
      received: "auto",
    });
  }
  if (from !== undefined && addressIn(String(from)) === undefined) {
    faults.push({ field: "config.from", expected: ADDRESS, received: "another text" });
  }
  return faults;
}
