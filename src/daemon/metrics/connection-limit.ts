import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Keeps a server from holding more than `max` connections, by closing one for each new one: the
 * oldest that waits for no answer, be it idle, slow to send its request or kept open after it; only
 * where there is none, the oldest at all. `server.maxConnections` would refuse the new one instead,
 * and so a probe as long as others keep theirs.
 */
export function limitConnections(server: Server, max: number): void {
  /** In the order in which they were opened. */
  const open = new Set<Socket>();
  const answering = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    if (open.size <= max) return;
    const closed = leastUseful(open, answering) ?? socket;
    open.delete(closed);
    closed.destroy();
  });
  server.on("request", ({ socket }, response) => {
    answering.add(socket);
    response.once("close", () => answering.delete(socket));
  });
}

function leastUseful(
  open: ReadonlySet<Socket>,
  answering: ReadonlySet<Socket>,
): Socket | undefined {
  const [oldest] = open;
  for (const socket of open) if (!answering.has(socket)) return socket;
  return oldest;
}
