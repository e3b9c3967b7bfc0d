import { type Egress, EgressError } from "../egress/egress.ts";
import type { Caller } from "../keys/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { invalidField, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import { imageTypeOf } from "../lib/image-type.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { ConversationRow, ImagePart } from "./conversation-store.ts";
import {
  checkAllowed,
  checked,
  checkSize,
  IMAGES,
  LARGEST_IMAGE,
  type Limits,
  type SentImage,
} from "./sent-images.ts";
import type { Agents } from "./service.ts";

/** A picture on record; `data` in base64. */
export type AttachmentRow = {
  id: string;
  conversation_id: string;
  sha256: string;
  media_type: string;
  size: number;
  data: string;
  created_at: number;
};

export type AttachmentStore = {
  /** Answers the id under which a conversation has these bytes: it keeps them once. */
  put(attachment: AttachmentRow): Promise<string>;
  get(id: string): Promise<(Omit<AttachmentRow, "data"> & { bytes: Uint8Array }) | undefined>;
  /** The agent that an attachment was shown to. */
  agentOf(id: string): Promise<string | undefined>;
  /** Those of a conversation that does not exist. */
  dropOrphans(conversation_id: string): Promise<void>;
  /** The same for all of them. */
  dropLost(): Promise<void>;
};

export type Attachments = ReturnType<typeof createAttachments>;

type Out = Pick<Egress, "request">;

const FETCH_MS = 15_000;

/** Pictures that come with messages: taken in, kept apart from the messages, given out. */
export function createAttachments({
  store,
  agents,
  egress,
  publicEgress,
  clock,
}: {
  store: AttachmentStore;
  agents: Pick<Agents, "inScope">;
  egress: Out;
  /** For strangers: no private address, also none that the operator allows the project's own work. */
  publicEgress: Out;
  clock: Clock;
}) {
  /** By the guarded way out, like everything that somebody else names. */
  async function fetched(url: string, field: string, by: Out): Promise<Uint8Array> {
    const asked = { method: "GET", url, timeoutMs: FETCH_MS, maxBytes: LARGEST_IMAGE + 1, redirects: 3 };
    const answer = await by.request(asked).catch((error) => {
      if (error instanceof EgressError) throw invalidField(field, IMAGES, `no answer (${error.class})`);
      throw error;
    });
    if (answer.status !== 200) throw invalidField(field, IMAGES, `status ${answer.status}`);
    return checked(answer.body, field);
  }

  async function bytesOf(images: SentImage[], limits: Limits, by: Out): Promise<Uint8Array[]> {
    checkAllowed(images, limits);
    const all = await Promise.all(
      images.map((image) => ("bytes" in image ? image.bytes : fetched(image.url, image.field, by))),
    );
    for (const [index, bytes] of all.entries()) checkSize(bytes, images[index]!.field, limits);
    return all;
  }

  return {
    /** Fetches what is elsewhere; nothing is kept. */
    async show(images: SentImage[], limits: Limits): Promise<{ media_type: string; data: string }[]> {
      return (await bytesOf(images, limits, egress)).map((bytes) => ({
        media_type: imageTypeOf(bytes)!,
        data: base64(bytes),
      }));
    },

    /** Fetches what is elsewhere and puts all on record for a conversation, before the message that shows them. */
    async take(
      { id: conversation_id, owner }: Pick<ConversationRow, "id" | "owner">,
      images: SentImage[],
      limits: Limits,
    ): Promise<ImagePart[]> {
      const all = await bytesOf(images, limits, owner === "anonymous" ? publicEgress : egress);
      const parts: ImagePart[] = [];
      for (const [index, bytes] of all.entries()) {
        const media_type = imageTypeOf(bytes)!;
        const attachment_id = await store.put({
          id: newId(),
          conversation_id,
          sha256: sha256Hex(bytes),
          media_type,
          size: bytes.length,
          data: base64(bytes),
          created_at: clock.now(),
        });
        const { name } = images[index]!;
        parts.push({ type: "image", attachment_id, media_type, size: bytes.length, name });
      }
      return parts;
    },

    /** For a message that was not stored after all: nothing is left of a conversation that never was. */
    drop: (conversation_id: string) => store.dropOrphans(conversation_id),

    /** At start, when no message is on its way in: what was put on record for one that a crash kept out. */
    dropLost: () => store.dropLost(),

    /** A picture as a model takes it; undefined: it is gone. */
    async forModel(id: string): Promise<{ media_type: string; data: string } | undefined> {
      const found = await store.get(id);
      return found && { media_type: found.media_type, data: Buffer.from(found.bytes).toString("base64") };
    },

    async get(caller: Caller, agent_id: string, id: string) {
      const agent = await agents.inScope(caller, agent_id);
      const found = isUuid(id) ? await store.get(id) : undefined;
      if (!found || (await store.agentOf(id)) !== agent.id) throw notFound("attachment", id);
      return found;
    },
  };
}

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
