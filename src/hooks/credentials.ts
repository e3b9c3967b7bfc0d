// One space, one token: two Authorization headers arrive joined by a comma, which fits neither.
const BEARER = /^bearer ([\w.~+/-]+=*)$/i;
const BASIC = /^basic ((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/i;

/** What stands for a credential that cannot be read: no token is empty. */
const UNREADABLE = "";

/**
 * Every different token that a request presents (interface 5.2): in the query, as Bearer, as the password
 * of Basic. A credential that cannot be read counts as one that is wrong, so it is in the list as well.
 */
export function credentialsOf(url: string, headers: Headers): string[] {
  const found = queryTokens(url);
  const authorization = headers.get("authorization");
  if (authorization !== null) {
    const token = authorizationToken(authorization);
    if (!found.includes(token)) found.push(token);
  }
  return found;
}

function authorizationToken(header: string): string {
  const bearer = BEARER.exec(header)?.[1];
  if (bearer !== undefined) return bearer;
  const basic = BASIC.exec(header)?.[1];
  if (basic === undefined) return UNREADABLE;
  const pair = Buffer.from(basic, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon === -1 ? UNREADABLE : pair.slice(colon + 1);
}

// A scan instead of URLSearchParams: this runs for every webhook, and nearly all carry one plain token.
function queryTokens(url: string): string[] {
  const found: string[] = [];
  const start = url.indexOf("?");
  if (start === -1) return found;
  if (url.startsWith("token=", start + 1) && !/[&%]/.test(url))
    return [url.slice(start + 1 + "token=".length)];
  for (const part of url.slice(start + 1).split("&")) {
    const equals = part.indexOf("=");
    const name = equals === -1 ? part : part.slice(0, equals);
    if (decoded(name) !== "token") continue;
    const value = equals === -1 ? UNREADABLE : decoded(part.slice(equals + 1));
    if (!found.includes(value)) found.push(value);
  }
  return found;
}

function decoded(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return UNREADABLE;
  }
}
