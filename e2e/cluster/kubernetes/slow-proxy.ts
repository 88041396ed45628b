import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer, request } from "node:https";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * A program: an HTTPS proxy before the API server that passes each PATCH of a pod on late.
 * Its arguments: PORT SERVER CERTIFICATE KEY CA DELAY, a file with the milliseconds.
 */
const [port, server = "", certificate = "", key = "", ca = "", delay = ""] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, ca: readFileSync(ca) });
const tls = { cert: readFileSync(certificate), key: readFileSync(key) };

async function forward(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, headers, url = "/" } = incoming;
  const body = await text(incoming);
  if (method === "PATCH" && url.includes("/pods/"))
    await sleep(Number(readFileSync(delay, "utf8")));
  const outgoing = request(new URL(url, server), { agent, method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders();
    response.on("close", () => answer.destroy());
    answer.pipe(response);
  });
  outgoing.on("error", () => response.destroy()).end(body);
}

createServer(tls, (incoming, response) => {
  forward(incoming, response).catch(() => response.destroy());
}).listen(Number(port), new URL(server).hostname);
