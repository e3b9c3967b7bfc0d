import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import {
  newSecret,
  serviceSignature,
  signatureHeaders,
  verifyDelivery,
} from "../../src/webhooks/signature.ts";

const lower = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

describe("signatures", () => {
  test("the published test vector of Standard Webhooks comes out", () => {
    const headers = signatureHeaders("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", {
      id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
      at: 1_614_265_330_999,
      body: '{"test": 2432232314}',
    });
    expect(headers["webhook-timestamp"]).toBe("1614265330");
    expect(headers["webhook-signature"]).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  test("a secret is whsec_ and 32 bytes, never the same twice", () => {
    const secrets = Array.from({ length: 50 }, newSecret);
    expect(new Set(secrets).size).toBe(50);
    for (const secret of secrets) expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  });

  test("any body is accepted by the official library and by a receiver that follows the interface", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.uuid(), (value, id) => {
        const body = JSON.stringify(value);
        const secret = newSecret();
        const headers = lower(signatureHeaders(secret, { id, at: Date.now(), body }));
        new Webhook(secret).verify(body, headers);
        const digest = createHmac("sha256", secret).update(body).digest("hex");
        expect(headers["x-service-signature"]).toBe(`sha256=${digest}`);
        expect(verifyDelivery(secret, headers, body, Date.now())).toBe(true);
      }),
    );
  });

  test("a changed body, secret, signature or time is refused", () => {
    const at = 1_700_000_000_000;
    const secret = newSecret();
    const headers = lower(signatureHeaders(secret, { id: "e1", at, body: "{}" }));
    const { "x-service-signature": service, ...standard } = headers;
    expect(verifyDelivery(secret, headers, "{ }", at)).toBe(false);
    expect(verifyDelivery(newSecret(), headers, "{}", at)).toBe(false);
    expect(verifyDelivery(secret, { ...headers, "webhook-id": "e2" }, "{}", at)).toBe(false);
    expect(verifyDelivery(secret, { ...headers, "x-service-signature": "sha256=00" }, "{}", at)).toBe(false);
    expect(verifyDelivery(secret, headers, "{}", at + 302_000)).toBe(false);
    expect(verifyDelivery(secret, {}, "{}", at)).toBe(false);
    expect(verifyDelivery(secret, standard, "{}", at)).toBe(true);
    expect(verifyDelivery(secret, { "x-service-signature": service }, "{}", at)).toBe(true);
  });

  test("during a rotation one right signature of several is enough", () => {
    const secret = newSecret();
    const headers = lower(signatureHeaders(secret, { id: "e1", at: 0, body: "{}" }));
    const several = `v1,AAAA ${headers["webhook-signature"]}`;
    expect(verifyDelivery(secret, { ...headers, "webhook-signature": several }, "{}", 0)).toBe(true);
  });
});

test("without a secret nothing is signed", () => {
  expect(() => serviceSignature("", "body")).toThrow();
  expect(() => signatureHeaders("", { id: "i", at: 0, body: "b" })).toThrow();
});
