// All that a receiver needs: node ten-line-receiver.mjs whsec_... 9000
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const [secret, port] = process.argv.slice(2);
createServer(async (request, response) => {
  const chunks = await Array.fromAsync(request);
  const expected = Buffer.from(
    `sha256=${createHmac("sha256", secret).update(Buffer.concat(chunks)).digest("hex")}`,
  );
  const given = Buffer.from(request.headers["x-service-signature"] ?? "");
  response.writeHead(given.length === expected.length && timingSafeEqual(given, expected) ? 200 : 401).end();
}).listen(Number(port), "127.0.0.1");
