/**
 * Which keys have ready work in the store, and whose turn it is: tenants in rotation, and each tenant's
 * keys in rotation, so that neither a tenant with half a million jobs nor one with five hundred keys
 * takes more than its share. Holds keys, never jobs.
 */
export class Backlog {
  readonly #tenants = new Map<string, Set<string>>();
  readonly #tenantOf = new Map<string, string>();

  get size(): number {
    return this.#tenantOf.size;
  }

  has(key: string): boolean {
    return this.#tenantOf.has(key);
  }

  add(tenant: string, key: string): void {
    if (this.#tenantOf.has(key)) return;
    this.#tenantOf.set(key, tenant);
    const keys = this.#tenants.get(tenant);
    if (keys) keys.add(key);
    else this.#tenants.set(tenant, new Set([key]));
  }

  remove(key: string): void {
    const tenant = this.#tenantOf.get(key);
    if (tenant === undefined) return;
    this.#tenantOf.delete(key);
    const keys = this.#tenants.get(tenant);
    keys?.delete(key);
    if (keys?.size === 0) this.#tenants.delete(tenant);
  }

  /**
   * Shares `slots` between the waiting keys, one slot a turn. `room` says how many more a key may take;
   * a key without room keeps its place for the next time.
   */
  share(slots: number, room: (key: string) => number): Map<string, number> {
    const given = new Map<string, number>();
    let left = slots;
    let progress = true;
    while (left > 0 && progress) {
      progress = false;
      for (const tenant of [...this.#tenants.keys()]) {
        if (left === 0) break;
        const key = this.#nextKey(tenant, given, room);
        if (key === undefined) continue;
        given.set(key, (given.get(key) ?? 0) + 1);
        left--;
        progress = true;
        this.#toBack(this.#tenants, tenant);
      }
    }
    return given;
  }

  #nextKey(tenant: string, given: Map<string, number>, room: (key: string) => number): string | undefined {
    const keys = this.#tenants.get(tenant);
    if (!keys) return undefined;
    for (const key of keys) {
      if (room(key) <= (given.get(key) ?? 0)) continue;
      keys.delete(key);
      keys.add(key);
      return key;
    }
    return undefined;
  }

  #toBack(map: Map<string, Set<string>>, tenant: string): void {
    const keys = map.get(tenant);
    if (!keys) return;
    map.delete(tenant);
    map.set(tenant, keys);
  }
}
