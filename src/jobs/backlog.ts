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
   * Gives `slots` to the waiting keys, one a turn. `room` tells whether a key may take one more at that moment,
   * which giving it one can only make untrue; a key without room keeps its place for the next time.
   */
  share(slots: number, room: (key: string) => boolean, give: (key: string) => void): void {
    let left = slots;
    let tenants = [...this.#tenants.keys()];
    while (left > 0 && tenants.length > 0) {
      const served: string[] = [];
      for (const tenant of tenants) {
        if (left === 0) break;
        const key = this.#nextKey(tenant, room);
        if (key === undefined) continue;
        served.push(tenant);
        this.#toBack(this.#tenants, tenant);
        left--;
        give(key);
      }
      tenants = served;
    }
  }

  #nextKey(tenant: string, room: (key: string) => boolean): string | undefined {
    const keys = this.#tenants.get(tenant);
    if (!keys) return undefined;
    for (const key of keys) {
      if (!room(key)) continue;
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
