import Type from "typebox";
import { type Clock, realTime } from "../lib/clock.ts";
import { type Fault, invalid } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { json } from "../lib/schema.ts";
import type { Vault } from "../lib/vault.ts";
import { AUTHENTICATIONS, type Authentication } from "./authentication/index.ts";
import type { Proof } from "./authentication/type.ts";
import type { TriggerRow } from "./store.ts";

type Sealed = Pick<TriggerRow, "auth" | "secret" | "previous_secret" | "previous_until">;

/** `made`: the secret, where it was made here. */
export type Configured = Sealed & { made?: string };

export type AuthConfigs = ReturnType<typeof createAuthConfigs>;

const FIELD = "trigger_config.auth_config";
const SCHEMAS = new Map(
  [...AUTHENTICATIONS].map(([type, { fields }]) => [
    type,
    json(Type.Object(fields.properties, { additionalProperties: false })),
  ]),
);

/** How triggers know their senders: `auth_config` checked, its secret sealed, opened and exchanged. */
export function createAuthConfigs({ vault, clock }: { vault: Pick<Vault, "seal" | "open">; clock: Clock }) {
  const seal = (id: string, column: "secret" | "previous_secret", text: string) =>
    vault.seal(text, `triggers.${column}:${id}`);
  const open = (id: string, column: "secret" | "previous_secret", text: string) =>
    vault.open(text, `triggers.${column}:${id}`);

  return {
    /**
     * What is stored of an `auth_config` as it was sent. A secret that is left out stays where `before` is of
     * the same type; else one is made, where its sender does not issue it. Throws `invalid_input`.
     */
    configure(id: string, given: { type: string }, before?: TriggerRow): Configured {
      const { type, ...sent } = given as { type: string } & Record<string, unknown>;
      const authentication = AUTHENTICATIONS.get(type)!;
      const { secret: secretName } = authentication;
      const config = withDefaults(authentication, sent);
      const isKept = before?.auth.type === type && before.secret !== null && sent[secretName!] == null;
      let made: string | undefined;
      if (secretName !== undefined && config[secretName] === undefined) {
        if (isKept) config[secretName] = open(id, "secret", before.secret!);
        else made = authentication.makeSecret?.();
        if (made !== undefined) config[secretName] = made;
      }
      check(authentication, config);
      const { [secretName ?? ""]: secret, ...shown } = config;
      const auth = { type, ...shown } as TriggerRow["auth"];
      if (isKept) {
        const { previous_secret, previous_until } = before;
        return { auth, secret: before.secret, previous_secret, previous_until };
      }
      return {
        auth,
        secret: secret === undefined ? null : seal(id, "secret", String(secret)),
        previous_secret: null,
        previous_until: null,
        made,
      };
    },

    /** Another secret in the place of the present one, which counts beside it for so long. Throws `invalid_input`. */
    rotate(row: TriggerRow, given: string | undefined, overlap_ms: number): Configured {
      const { id, auth } = row;
      const authentication = AUTHENTICATIONS.get(auth.type)!;
      const { secret: name, makeSecret } = authentication;
      if (name === undefined || row.secret === null) {
        throw invalid([{ field: FIELD, expected: "a type with a secret", received: auth.type }]);
      }
      const secret = given ?? makeSecret?.();
      if (secret === undefined) {
        const expected = `the secret that ${auth.type} has issued`;
        throw invalid([{ field: "secret", expected, received: "nothing" }]);
      }
      const { type: _, ...shown } = auth;
      check(authentication, { ...shown, [name]: secret }, (field) =>
        field === `${FIELD}.${name}` ? "secret" : field,
      );
      const overlaps = overlap_ms > 0;
      return {
        auth,
        secret: seal(id, "secret", secret),
        previous_secret: overlaps ? seal(id, "previous_secret", open(id, "secret", row.secret)) : null,
        previous_until: overlaps ? clock.now() + overlap_ms : null,
        made: given === undefined ? secret : undefined,
      };
    },

    /** What a request is held against now. */
    proof({ id, auth, secret, previous_secret, previous_until }: TriggerRow): Proof {
      const now = clock.now();
      const secrets = secret === null ? [] : [open(id, "secret", secret)];
      if (previous_secret !== null && (previous_until ?? 0) > now)
        secrets.push(open(id, "previous_secret", previous_secret));
      // Senders sign by the clock on the wall.
      return { config: auth, secrets, now: realTime(clock).now() };
    },
  };
}

/** null clears a field, as does leaving it out. */
function withDefaults({ fields }: Authentication, sent: Record<string, unknown>): JsonObject {
  const usual = Object.entries(fields.properties).flatMap(([name, property]) => {
    const { default: value } = property as { default?: unknown };
    return value === undefined ? [] : [[name, value]];
  });
  const given = Object.entries(sent).filter(([, value]) => value !== null);
  return Object.fromEntries([...usual, ...given]) as JsonObject;
}

function check(
  { type, secret, secretFault }: Authentication,
  config: JsonObject,
  named: (field: string) => string = (field) => field,
): void {
  const faults: Fault[] = SCHEMAS.get(type)!
    .faults(config)
    .map(({ field, ...fault }) => ({ ...fault, field: named(field ? `${FIELD}.${field}` : FIELD) }));
  const odd = faults.length === 0 && secret !== undefined ? secretFault?.(String(config[secret])) : undefined;
  if (odd) faults.push({ ...odd, field: named(`${FIELD}.${secret}`) });
  if (faults.length > 0) throw invalid(faults);
}
