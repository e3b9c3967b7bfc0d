/**
 * Notices, once, that callers reach this server under another name than the one its addresses are made of.
 * Loopback does not count: whoever is on the machine itself may call it what they like.
 */
export function createHostWatch({
  publicUrl,
  noticed,
}: {
  publicUrl(): string;
  noticed(host: string): void;
}): (host: string) => void {
  let isDone = false;
  let known = "";
  return (host) => {
    if (isDone || host === known) return;
    if (isLoopback(host) || isHostOf(publicUrl(), host)) {
      known = host;
      return;
    }
    isDone = true;
    noticed(host);
  };
}

const isLoopback = (host: string): boolean => /^(localhost|127\.[\d.]+|\[::1\])(:\d+)?$/i.test(host);

// Compared as addresses of the same scheme: its usual port may be said or not.
function isHostOf(url: string, host: string): boolean {
  const { protocol, host: expected } = new URL(url);
  const given = `${protocol}//${host}`;
  return URL.canParse(given) && new URL(given).host === expected;
}
