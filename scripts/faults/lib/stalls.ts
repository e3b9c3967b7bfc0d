/** What was sent and took long, to be sent once more alone. */
export type Suspect = { what: string; again: () => Promise<unknown> };

const STALL_MS = 100;
const TRIES = 10;
const PAUSE_MS = 100;

/**
 * Finds what holds the program up: the health of the server is asked beside each suspect, alone. Only what
 * delays it every time counts, because the machine has other things to do as well.
 */
export async function stallsOf(url: string, suspects: Suspect[]): Promise<string[]> {
  const found: string[] = [];
  for (const { what, again } of suspects) {
    const delays: number[] = [];
    for (let tried = 0; tried < TRIES; tried++) {
      let over = false;
      const asked = again()
        .catch(() => {})
        .finally(() => {
          over = true;
        });
      let longest = 0;
      do {
        const began = performance.now();
        await (await fetch(`${url}/health`)).text();
        longest = Math.max(longest, performance.now() - began);
        await Bun.sleep(1);
      } while (!over && longest <= STALL_MS);
      await asked;
      delays.push(longest);
      if (longest <= STALL_MS) break;
      await Bun.sleep(PAUSE_MS);
    }
    if (delays.length === TRIES && delays.every((ms) => ms > STALL_MS))
      found.push(`${what}: ${Math.round(Math.min(...delays))} ms`);
  }
  return found;
}

/** Notes what took longer than a stall, at most `most` of them. */
export function suspicion(most = 20) {
  const suspects: Suspect[] = [];
  return {
    suspects,
    async timed<T>(what: string, send: () => Promise<T>): Promise<T> {
      const began = performance.now();
      const answer = await send();
      if (performance.now() - began > STALL_MS && suspects.length < most)
        suspects.push({ what, again: send });
      return answer;
    },
  };
}
