import { request } from "node:http";

export type LoopbackAnswer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
};

/**
 * One request to a server of this machine. Not `fetch`: it would go by a proxy that the environment names.
 * Rejects when nothing answers within `timeoutMs`.
 */
export function ask(
  method: string,
  url: string,
  options: {
    headers?: Record<string, string>;
    body?: string;
    timeoutMs?: number;
  } = {},
): Promise<LoopbackAnswer> {
  const { headers = {}, body, timeoutMs = 10_000 } = options;
  return new Promise((resolve, reject) => {
    const sending = request(
      url,
      { method, headers, agent: false, signal: AbortSignal.timeout(timeoutMs) },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => {
          text += chunk;
        });
        answer.on("end", () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text }),
        );
        answer.on("error", reject);
      },
    );
    sending.on("error", reject);
    sending.end(body);
  });
}
