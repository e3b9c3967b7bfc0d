import { cursorOf, type Stretch } from "../lib/feed.ts";
import { pathOf, queryOf } from "./context.ts";

export type Page<T> = { items: T[]; total: number; limit: number; offset: number };

/**
 * Answers a list: the bare array, its whole size in `X-Total-Count`, its neighbours in `Link` (RFC 8288).
 * The links are relative to this server: a Host header is the client's word and builds no address.
 */
export function page<T>(
  set: { headers: Record<string, string | number> },
  request: Request,
  { items, total, limit, offset }: Page<T>,
): T[] {
  // Not by URL: some hosts that reach the gate are none to it ("127.0.0.1:99999").
  const path = pathOf(request.url);
  const query = new URLSearchParams(queryOf(request.url));
  const link = (rel: string, at: number) => {
    query.set("limit", String(limit));
    query.set("offset", String(at));
    return `<${path}?${query}>; rel="${rel}"`;
  };
  const last = Math.max(0, Math.ceil(total / limit) - 1) * limit;
  const links = [link("first", 0)];
  if (offset > 0) links.push(link("prev", Math.max(0, Math.min(offset - limit, last))));
  if (offset + limit < total) links.push(link("next", offset + limit));
  links.push(link("last", last));
  set.headers["x-total-count"] = String(total);
  set.headers["link"] = links.join(", ");
  return items;
}

/**
 * Answers a stretch of a list that grows while it is read: `Link` with rel="next" where it goes on, and
 * `X-Total-Count` where the whole is known.
 */
export function stretch<T>(
  set: { headers: Record<string, string | number> },
  request: Request,
  { items, next, total }: Stretch<T> & { total?: number },
): T[] {
  if (total !== undefined) set.headers["x-total-count"] = String(total);
  if (next) {
    const query = new URLSearchParams(queryOf(request.url));
    query.delete("offset");
    query.set("cursor", cursorOf(next));
    set.headers["link"] = `<${pathOf(request.url)}?${query}>; rel="next"`;
  }
  return items;
}
