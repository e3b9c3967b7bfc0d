import { AppError, describe, invalidField } from "../lib/errors.ts";
import { imageTypeOf } from "../lib/image-type.ts";
import { isObject } from "../lib/json.ts";
import type { AgentSettings } from "./schema.ts";

/** A picture as it came with a message: its bytes, or where they are. `field` names it in errors. */
export type SentImage = { field: string; name: string | null } & ({ bytes: Uint8Array } | { url: string });

export const LARGEST_IMAGE = 5 * 1024 * 1024;
export const MOST_IMAGES = 10;
export const IMAGES = "a png, jpeg, webp or gif picture";

const LONGEST_URL = 2_048;
const LONGEST_NAME = 200;
const IMAGE_PARTS: unknown[] = ["image", "image_url", "input_image", "file"];

/** Whether a part of a message is a picture or another file, in whichever client's words. */
export const isAttachment = (part: Record<string, unknown>): boolean => IMAGE_PARTS.includes(part["type"]);

/**
 * Reads one attachment, as AI SDK 4 sends it beside a message (`url`), as file part of AI SDK 4 or of 5 and
 * later (`data`, `url`), as assistant-ui's or OpenAI's image part (`image`, `image_url`), or as Anthropic's
 * (`source`). Throws `invalid_input` for what is no picture and `payload_too_large` past 5 MB.
 */
export function readImage(part: Record<string, unknown>, field: string): SentImage {
  const name = [part["name"], part["filename"]].find((value) => typeof value === "string") as
    | string
    | undefined;
  const address = addressOf(part);
  if (typeof address !== "string" || address === "") throw invalidField(field, IMAGES, describe(address));
  const named = { field, name: name?.slice(0, LONGEST_NAME) ?? null };
  if (/^https?:\/\//i.test(address)) {
    if (address.length > LONGEST_URL)
      throw invalidField(field, `an address of at most ${LONGEST_URL} characters`, "a longer one");
    return { ...named, url: address };
  }
  return { ...named, bytes: decoded(address, field) };
}

function addressOf(part: Record<string, unknown>): unknown {
  const { url, image, image_url, data, source } = part;
  if (isObject(image_url)) return image_url["url"];
  if (isObject(source)) return source["data"] ?? source["url"];
  return url ?? image_url ?? image ?? data;
}

const DATA_URL = /^data:[^,]{0,200};base64,/i;

function decoded(address: string, field: string): Uint8Array {
  const head = DATA_URL.exec(address.slice(0, 300))?.[0] ?? "";
  const text = head === "" ? address : address.slice(head.length);
  if (text.length > (LARGEST_IMAGE * 4) / 3 + 4) throw tooLarge(field);
  const bytes = Buffer.from(text, "base64");
  // Decoding passes over what is no base64 and comes out short.
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  if (bytes.length !== Math.floor(((text.length - padding) * 3) / 4))
    throw invalidField(field, "base64, or an http address", "another form");
  return checked(bytes, field);
}

/** The bytes, if they are a picture of a kind that models take and not too large. */
export function checked(bytes: Uint8Array, field: string): Uint8Array {
  if (bytes.length > LARGEST_IMAGE) throw tooLarge(field);
  if (!imageTypeOf(bytes)) throw invalidField(field, IMAGES, "other bytes");
  return bytes;
}

/** What an agent sets below the limits of all. */
export type Limits = AgentSettings["attachment_config"];

/** Whether the agent takes pictures, and so many at once. */
export function checkAllowed(images: SentImage[], limits: Limits): void {
  const [first] = images;
  if (first && limits?.enable === false)
    throw invalidField(first.field, "no picture, as this agent takes none", "a picture");
  const extra = images[limits?.max_count_per_message ?? MOST_IMAGES];
  if (extra) {
    const most = `at most ${limits?.max_count_per_message ?? MOST_IMAGES} pictures`;
    throw invalidField(extra.field, most, `${images.length}`);
  }
}

export function checkSize(bytes: Uint8Array, field: string, limits: Limits): void {
  const most = limits?.max_file_size ?? LARGEST_IMAGE;
  if (bytes.length > most) throw tooLarge(field, most);
}

const tooLarge = (field: string, most = LARGEST_IMAGE) =>
  new AppError("payload_too_large", `A picture is larger than ${most} bytes.`, {
    faults: [{ field, expected: `at most ${most} bytes`, received: "more" }],
  });
