import { formsOf } from "../lib/conceal.ts";
import type { OpenConnection } from "./types.ts";

/** Every form in which a connection's secret could come back from whoever it was sent to. */
export const secretsOf = (connection: OpenConnection): string[] => formsOf(secretTexts(connection));

function secretTexts(connection: OpenConnection): string[] {
  switch (connection.type) {
    case "bearer":
      return [connection.token];
    case "basic":
      return [connection.password, `${connection.username}:${connection.password}`];
    case "header":
      return [connection.value];
    case "smtp":
      return connection.password === undefined ? [] : [connection.password];
    case "model":
      return [connection.api_key];
  }
}
