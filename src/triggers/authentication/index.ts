import { basic } from "./basic.ts";
import { bearer } from "./bearer.ts";
import { github } from "./github.ts";
import { header } from "./header.ts";
import { hmac } from "./hmac.ts";
import { none } from "./none.ts";
import { shopify } from "./shopify.ts";
import { slack } from "./slack.ts";
import { standardWebhooks } from "./standard-webhooks.ts";
import { stripe } from "./stripe.ts";
import type { Authentication } from "./type.ts";

export type { Authentication, SenderKey, Sent } from "./type.ts";

const ALL = [none, bearer, basic, header, hmac, standardWebhooks, github, stripe, slack, shopify];

/** Every way for a trigger to know its sender (interface 2.4, 5.2), by `auth_config.type`. */
export const AUTHENTICATIONS = new Map<string, Authentication>(ALL.map((one) => [one.type, one]));

export const AUTHENTICATION_TYPES = ALL.map(({ type }) => type);
