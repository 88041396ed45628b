import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** What a proxy answers itself: nothing that an API server would. */
const page = "<html>no such site</html>";
const notFoundPage = `HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: ${page.length}\r\n\r\n${page}`;

/**
 * A proxy in front of a local server, as HAProxy is for API servers: cuts connections that are idle,
 * and while it has no route, answers each request with a separate page.
 */
export async function startIdleProxy(
  url: string,
  { idleMs }: { readonly idleMs: number },
): Promise<{ url: string; hasRoute: boolean; cuts: number } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(Number(new URL(url).port), "127.0.0.1");
    for (const each of [client, server]) sockets.add(each.on("error", () => undefined));
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
    server.pipe(client);
    client.on("data", (bytes) =>
      state.hasRoute ? server.write(bytes) : client.write(notFoundPage),
    );
    const cut = (): void => {
      state.cuts += 1;
      client.resetAndDestroy();
    };
    client.setTimeout(idleMs, cut);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const { port } = proxy.address() as AddressInfo;
  const state = {
    url: `http://127.0.0.1:${port}`,
    hasRoute: true,
    /** How many idle connections it has cut. */
    cuts: 0,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      for (const each of sockets) each.destroy();
      proxy.close();
    },
  };
  return state;
}
