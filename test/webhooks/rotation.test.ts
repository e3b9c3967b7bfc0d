import { afterEach, describe, expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import { serviceSignature, verifyDelivery } from "../../src/webhooks/signature.ts";
import { type Got, receiver as openReceiver, setup as openWorld } from "./setup.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

const HOUR = 3_600_000;

async function setup() {
  const world = await openWorld();
  const { url, got, ...receiver } = openReceiver();
  open.push(world, receiver);
  await world.clock.advance(Date.now() - world.clock.now()); // the library checks the time
  const webhook = await world.subscribe({ url });
  const next = async (): Promise<Got> => {
    await world.emit();
    await world.idle();
    return got.at(-1)!;
  };
  return { ...world, ...webhook, next };
}

const accepts = (secret: string, { headers, body }: Got, now: number) =>
  verifyDelivery(secret, headers, body, now);

describe("a rotated secret", () => {
  test("signs beside the old one for a day, so that a receiver that knows either sees no gap", async () => {
    const { webhooks, caller, id, secret: old, clock, next } = await setup();
    const rotated = await webhooks.rotateSecret(caller, id);
    expect(rotated).toEqual({
      secret: expect.stringMatching(/^whsec_/),
      previous_secret: old,
      previous_secret_until: new Date(clock.now() + 24 * HOUR).toISOString(),
    });
    const during = await next();
    expect(during.headers["x-service-signature"]).toBe(serviceSignature(rotated.secret, during.body));
    expect(during.headers["x-service-signature-2"]).toBe(serviceSignature(old, during.body));
    for (const secret of [old, rotated.secret]) {
      expect(new Webhook(secret).verify(during.body, during.headers)).toBeDefined();
      expect(accepts(secret, during, clock.now())).toBe(true);
    }
    await clock.advance(24 * HOUR);
    const after = await next();
    expect(after.headers["x-service-signature-2"]).toBeUndefined();
    expect(accepts(rotated.secret, after, clock.now())).toBe(true);
    expect(accepts(old, after, clock.now())).toBe(false);
    expect(await webhooks.secret(caller, id)).toMatchObject({ previous_secret: null });
  });

  test("ends the old one at once when it is to", async () => {
    const { webhooks, caller, id, secret: old, clock, next } = await setup();
    const { secret } = await webhooks.rotateSecret(caller, id, { overlap_seconds: 0 });
    const got = await next();
    expect([accepts(secret, got, clock.now()), accepts(old, got, clock.now())]).toEqual([true, false]);
    expect(got.headers["webhook-signature"]?.split(" ")).toHaveLength(1);
  });

  test("forgets the one before the last, also when two rotate at the same time", async () => {
    const { webhooks, caller, id, secret: first, clock, next } = await setup();
    const made = await Promise.all([webhooks.rotateSecret(caller, id), webhooks.rotateSecret(caller, id)]);
    const got = await next();
    for (const { secret } of made) expect(accepts(secret, got, clock.now())).toBe(true);
    expect(accepts(first, got, clock.now())).toBe(false);
  });

  test("is of no use to a delivery's forger", async () => {
    const { webhooks, caller, id, next, clock } = await setup();
    const { secret } = await webhooks.rotateSecret(caller, id);
    const got = await next();
    const forged = { ...got, body: `${got.body} ` };
    expect(accepts(secret, forged, clock.now())).toBe(false);
  });
});
