import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { world } from "./setup.ts";

const { errand, workspace } = await world();

const agent = (await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, { name: "Guide" })).body
  .id;

/** A trigger made on the command line, its secret out of a file as the README has it. */
async function aTrigger(auth: string, secret: string, ...more: string[]) {
  const made = await errand.command(
    ...["triggers", "create", agent, "--auth", auth, "--secret-from", secretFile(secret), "--json", ...more],
  );
  expect([made.code, made.stderr.includes(secret)]).toEqual([0, false]);
  return JSON.parse(made.stdout) as { id: string; url: string };
}
function secretFile(secret: string): string {
  const file = join(errand.data, `secret-${crypto.randomUUID()}`);
  writeFileSync(file, `${secret}\n`);
  return file;
}

/** Signs in the shell with openssl and sends with curl: no line of ours has a part in it. Answers the status. */
async function shell(script: string, env: Record<string, string>): Promise<string> {
  const functions = [
    'hex() { printf %s "$1" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d" " -f1; }',
    'base64_of() { printf %s "$1" | openssl dgst -sha256 -hmac "$SECRET" -binary | openssl base64 -A; }',
    'base64_by_key() { printf %s "$1" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | openssl base64 -A; }',
    'post() { printf %s "$BODY" | curl -sS -o "$OUT" -w "%{http_code}" --data-binary @- "$URL" "$@"; }',
    "JSON='Content-Type: application/json'",
  ];
  const running = Bun.spawn(["sh", "-c", [...functions, script].join("\n")], {
    env: { PATH: process.env["PATH"]!, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, problems] = await Promise.all([
    new Response(running.stdout).text(),
    new Response(running.stderr).text(),
  ]);
  if ((await running.exited) !== 0) throw new Error(problems);
  return out;
}

const GITHUB = 'post -H "$JSON" -H "X-GitHub-Event: push" -H "X-Hub-Signature-256: sha256=$(hex "$BODY")"';
const SCHEMES: Record<string, { secret: string; script: string; hasTime: boolean; type?: string }> = {
  github: { secret: "It's a Secret to Everybody", script: GITHUB, hasTime: false },
  stripe: {
    secret: "whsec_test_0123456789abcdef",
    script: 'post -H "$JSON" -H "Stripe-Signature: t=$NOW,v1=$(hex "$NOW.$BODY"),v0=00"',
    hasTime: true,
  },
  slack: {
    secret: "8f742231b10e8888abcd99yyyzzz85a5",
    script:
      'post -H "$JSON" -H "X-Slack-Request-Timestamp: $NOW" -H "X-Slack-Signature: v0=$(hex "v0:$NOW:$BODY")"',
    hasTime: true,
  },
  shopify: {
    secret: "hush",
    script:
      'post -H "$JSON" -H "X-Shopify-Topic: orders/create" -H "X-Shopify-Hmac-Sha256: $(base64_of "$BODY")"',
    hasTime: false,
  },
  standard_webhooks: {
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    script:
      'post -H "$JSON" -H "webhook-id: $ID" -H "webhook-timestamp: $NOW" -H "webhook-signature: v1,$(base64_by_key "$ID.$NOW.$BODY")"',
    hasTime: true,
  },
};

describe.skipIf(!Bun.which("openssl") || !Bun.which("curl"))(
  "a request signed by openssl and sent by curl",
  () => {
    const out = join(errand.data, "answer");
    let count = 0;
    const send = (url: string, scheme: string, secret: string, more: Record<string, string> = {}) =>
      shell(SCHEMES[scheme]!.script, {
        URL: url,
        OUT: out,
        SECRET: secret,
        KEY: Buffer.from(secret.replace(/^whsec_/, ""), "base64").toString("hex"),
        ID: `msg_${count}`,
        NOW: String(Math.floor(Date.now() / 1_000)),
        BODY: JSON.stringify({ id: `evt_${count++}`, text: "naïve 🐛 {{ braces }}" }),
        ...more,
      });

    for (const [scheme, { secret, hasTime }] of Object.entries(SCHEMES)) {
      test(`is known by the scheme of ${scheme}, and not by another secret or at a stale time`, async () => {
        const { url } = await aTrigger(scheme, secret);
        expect(await send(url, scheme, secret)).toBe("202");
        const other = scheme === "standard_webhooks" ? `whsec_${btoa("another secret of bytes!")}` : "other";
        expect(await send(url, scheme, other)).toBe("401");
        if (!hasTime) return;
        const stale = { NOW: String(Math.floor(Date.now() / 1_000) - 400) };
        expect(await send(url, scheme, secret, stale)).toBe("401");
      });
    }

    test("is answered GitHub's published example, and Slack's challenge", async () => {
      const github = await aTrigger("github", "It's a Secret to Everybody");
      const published = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
      const script = `post -H "Content-Type: text/plain" -H "X-Hub-Signature-256: sha256=${published}"`;
      expect(await shell(script, { URL: github.url, OUT: out, BODY: "Hello, World!" })).toBe("202");
      expect(await shell(script, { URL: github.url, OUT: out, BODY: "Hello, World?" })).toBe("401");

      const slack = await aTrigger("slack", "s3cret");
      const challenge = { BODY: '{"token":"t","challenge":"3eZbrw1a","type":"url_verification"}' };
      expect(await send(slack.url, "slack", "s3cret", challenge)).toBe("200");
      expect(await Bun.file(out).json()).toEqual({ challenge: "3eZbrw1a" });
    });

    test("counts by both secrets while a rotation overlaps, and by the new one alone after it", async () => {
      const { id, url } = await aTrigger("github", "first");
      const rotate = (secret: string, seconds: string) =>
        errand.command(
          ...[
            "triggers",
            "rotate-secret",
            id,
            "--secret-from",
            secretFile(secret),
            "--overlap-seconds",
            seconds,
          ],
        );
      const by = async (...secrets: string[]) => {
        const statuses = [];
        for (const secret of secrets) statuses.push(await send(url, "github", secret));
        return statuses;
      };
      expect((await rotate("second", "3600")).code).toBe(0);
      expect(await by("first", "second", "third")).toEqual(["202", "202", "401"]);
      expect((await rotate("third", "0")).code).toBe(0);
      expect(await by("first", "second", "third")).toEqual(["401", "401", "202"]);
    });
  },
);
