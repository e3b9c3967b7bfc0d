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
  const url = new URL(request.url);
  const link = (rel: string, at: number) => {
    url.searchParams.set("limit", String(limit));
    url.searchParams.set("offset", String(at));
    return `<${url.pathname}${url.search}>; rel="${rel}"`;
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
