/** To open a connection takes a tenth of a millisecond, and who else waits for the thread is not to wait for hundreds. */
const MOST_A_TURN = 32;

/** Lets so many through in one turn of the event loop, at once, and the others in order in the turns that follow. */
export class Turnstile {
  #passed = 0;
  #waiting: (() => void)[] = [];

  pass(go: () => void): void {
    if (this.#passed === 0) setImmediate(() => this.#turn());
    else if (this.#passed >= MOST_A_TURN) {
      this.#waiting.push(go);
      return;
    }
    this.#passed++;
    go();
  }

  #turn(): void {
    const next = this.#waiting.splice(0, MOST_A_TURN);
    this.#passed = next.length;
    if (next.length === 0) return;
    setImmediate(() => this.#turn());
    for (const go of next) go();
  }
}
