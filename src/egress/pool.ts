import type { Wire } from "./wire.ts";

// As many as may be under way to one host: a burst that ends must not close what the next one opens again.
const IDLE_PER_HOST = 512;
const SWEEP_MS = 2_000;

/**
 * Idle connections, the one used last first. Those idle from one sweep to the next are closed: servers
 * commonly close theirs after 5 s or more, and going first keeps stale ones rare.
 */
export class Pool {
  readonly #idle = new Map<string, Wire[]>();
  #seen = new Set<Wire>();
  #sweeper: ReturnType<typeof setInterval> | undefined;

  take(key: string): Wire | undefined {
    const wire = this.#idle.get(key)?.pop();
    if (wire) this.#seen.delete(wire);
    return wire;
  }

  put(wire: Wire): void {
    let idle = this.#idle.get(wire.key);
    if (!idle) {
      idle = [];
      this.#idle.set(wire.key, idle);
    }
    if (idle.length >= IDLE_PER_HOST) wire.destroy();
    else idle.push(wire);
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
  }

  remove(wire: Wire): void {
    const idle = this.#idle.get(wire.key);
    const at = idle?.indexOf(wire) ?? -1;
    if (at !== -1) idle!.splice(at, 1);
  }

  close(): void {
    clearInterval(this.#sweeper);
    for (const idle of [...this.#idle.values()]) for (const wire of [...idle]) wire.destroy();
    this.#idle.clear();
  }

  #sweep(): void {
    const seen = new Set<Wire>();
    for (const [key, idle] of this.#idle) {
      for (const wire of [...idle]) {
        if (this.#seen.has(wire)) wire.destroy();
        else seen.add(wire);
      }
      if (idle.length === 0) this.#idle.delete(key);
    }
    this.#seen = seen;
    if (this.#idle.size === 0) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
    }
  }
}
