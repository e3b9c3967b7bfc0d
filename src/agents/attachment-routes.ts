import { Elysia } from "elysia";
import { responses, textOf } from "../http/answers.ts";
import { policies } from "../http/policy.ts";
import type { Attachments } from "./attachments.ts";

const PICTURE = responses({
  200: { description: "Its bytes.", content: textOf("image/png", "image/jpeg", "image/webp", "image/gif") },
});

/** Pictures that were shown to an agent. */
export const attachmentRoutes = ({ attachments }: { attachments: Attachments }) =>
  new Elysia({ name: "agents.attachment-routes", prefix: "/agents/:id/attachments" })
    .use(policies)
    .get(
      "/:attachment_id",
      async ({ caller, params }) => picture(await attachments.get(caller, params.id, params.attachment_id)),
      {
        policy: "key",
        detail: { summary: "Read a picture that came with a message", tags: ["conversations"], ...PICTURE },
      },
    );

// Somebody else's bytes: a browser may show them and must not run them.
const picture = ({ bytes, media_type }: { bytes: Uint8Array; media_type: string }): Response =>
  new Response(bytes as Uint8Array<ArrayBuffer>, {
    headers: {
      "content-type": media_type,
      "content-security-policy": "default-src 'none'; sandbox",
      "cache-control": "private, max-age=86400, immutable",
    },
  });
