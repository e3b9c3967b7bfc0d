export const ADDRESS = "an address such as ada@example.org or Ada <ada@example.org>";
const LONGEST_ADDRESS = 320;

// No list, no group and no line break: one text is one mailbox, so nobody is written to who was not named.
const BARE = /^[^\s@<>()[\],;:\\"]+@[^\s@<>()[\],;:\\"]+$/;
const NAMED = /^(?:"[^"<>\r\n]*"|[^"<>,;:@\r\n]*?)\s*<([^<>]+)>$/;

/** The bare address in a text; undefined where it is not exactly one. */
export function addressIn(text: string): string | undefined {
  const trimmed = text.trim();
  if (trimmed.length > LONGEST_ADDRESS) return undefined;
  const bare = NAMED.exec(trimmed)?.[1]?.trim() ?? trimmed;
  return BARE.test(bare) ? bare : undefined;
}
