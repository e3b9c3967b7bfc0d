/** What is shorter stands in any text by chance: to take it out would spoil the text and tell the secret. */
export const SHORTEST_SECRET = 5;
const SHOWN = "[secret]";

/** Every form in which secrets could come back from whoever they were sent to. */
export function formsOf(secrets: string[]): string[] {
  const forms = secrets.flatMap((text) => [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text),
    Buffer.from(text).toString("base64"),
  ]);
  // The longest first, so that none is cut in two by a part of itself.
  return [...new Set(forms)]
    .filter((text) => text.length >= SHORTEST_SECRET)
    .sort((a, b) => b.length - a.length);
}

/** A text without those secrets: a server that repeats what it was sent must not put them on record. */
export const conceal = (text: string, secrets: string[]): string =>
  secrets.reduce((shown, secret) => (shown.includes(secret) ? shown.replaceAll(secret, SHOWN) : shown), text);

/** The same for bytes of any kind. */
export function concealBytes(bytes: Uint8Array, secrets: string[]): Uint8Array {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = secrets.map((secret) => Buffer.from(secret)).filter((secret) => buffer.includes(secret));
  if (found.length === 0) return bytes;
  // One character for each byte, so that the text of any bytes can be put back as they were.
  const forms = found.map((secret) => secret.toString("latin1"));
  return Buffer.from(conceal(buffer.toString("latin1"), forms), "latin1");
}
