import { iso } from "../lib/clock.ts";
import type { AlertRow } from "./store.ts";

const SUBJECTS = {
  exhausted: "gave up a delivery to",
  paused: "stopped sending to",
  recovered: "delivers again to",
};

/** The mail of an alert: what happened, the last answer, and the commands that mend it. */
export function letterOf({ id, kind, subscription_id, details, created_at }: AlertRow): {
  subject: string;
  text: string;
  idempotencyKey: string;
} {
  const { url, event, event_id, delivery_id, reason, attempts, since } = details;
  // A name is a client's text: with a line break it could end a header, or write lines of its own.
  const name = details.name.replace(/\s+/g, " ").slice(0, 100);
  const lines: (string | false)[] = [
    `Errand ${SUBJECTS[kind]} the webhook "${name}".`,
    "",
    `Webhook:   ${subscription_id}`,
    `Address:   ${url}`,
    `Event:     ${event} ${event_id}`,
    `Delivery:  ${delivery_id}, attempt ${attempts} at ${iso(created_at)}`,
    `Answer:    ${answerOf(details)}`,
    kind !== "recovered" && `Reason:    ${reason ?? "-"}`,
    `Trouble:   since ${iso(since)}`,
    "",
    ...commandsOf(kind, { subscription_id, delivery_id, since }),
  ];
  return {
    subject: `Errand ${SUBJECTS[kind]} ${name}`,
    text: `${lines.filter((line) => line !== false).join("\n")}\n`,
    idempotencyKey: `alert/${id}`,
  };
}

function answerOf({ response_code, response_excerpt, error }: AlertRow["details"]): string {
  if (response_code === null) return error ?? "none";
  const excerpt = response_excerpt === null ? "" : `, ${JSON.stringify(response_excerpt.slice(0, 500))}`;
  return `${response_code}${excerpt}`;
}

type About = { subscription_id: string; delivery_id: string; since: number };

function commandsOf(kind: AlertRow["kind"], { subscription_id: id, delivery_id, since }: About): string[] {
  const again = `  errand webhooks redeliver ${id} ${delivery_id}`;
  const all = `  errand webhooks replay ${id} --since ${iso(since)}`;
  switch (kind) {
    case "exhausted":
      return [
        "Further deliveries are tried as they come. To send this one, or all since the trouble began, once more:",
        "",
        again,
        all,
      ];
    case "paused":
      return [
        "Events are kept for it meanwhile. When it answers again, to go on, and to send this one or all that failed once more:",
        "",
        `  errand webhooks resume ${id}`,
        again,
        all,
      ];
    case "recovered":
      return ["To send what was given up meanwhile once more:", "", all];
  }
}
