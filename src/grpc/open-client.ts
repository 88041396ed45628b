import type { UnaryClient } from "./unary-method.ts";

/**
 * A client of the server at a Unix socket; dispose it when it is not needed any more. The gRPC library
 * is loaded by the first one: it takes about 17 MB and 100 ms, which no process without need has to pay.
 */
export async function openUnaryClient(
  socketPath: string,
  options: { readonly maxResponseBytes: number },
): Promise<UnaryClient> {
  const { UnixSocketClient } = await import("./unix-socket-client.ts");
  return new UnixSocketClient(socketPath, options);
}
