import type { UnaryClient } from "./unary-method.ts";

/**
 * Opens a client of the server at a Unix socket, to be disposed after use. The gRPC library takes
 * about 17 MB and 100 ms, so it is loaded with the first client.
 */
export async function openUnaryClient(
  socketPath: string,
  options: { readonly maxResponseBytes: number },
): Promise<UnaryClient> {
  const { UnixSocketClient } = await import("./unix-socket-client.ts");
  return new UnixSocketClient(socketPath, options);
}
