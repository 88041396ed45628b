import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";

/**
 * Keeps a server from holding more than `max` connections, by closing one for each new one: the
 * oldest that waits for no answer, be it idle, slow to send its request or kept open after it; only
 * where there is none, the oldest at all. `server.maxConnections` would refuse the new one instead,
 * and so a probe as long as others keep theirs.
 */
export function limitConnections(server: Server | TlsServer, max: number): void {
  /** In the order in which they were opened. */
  const open = new Map<Connection, Socket>();
  const answering = new Set<Connection>();
  server.on("connection", (socket: Socket) => {
    const connection = connectionOf(socket);
    open.set(connection, socket);
    socket.once("close", () => open.delete(connection));
    if (open.size <= max) return;
    const closed = leastUseful(open, answering) ?? connection;
    open.get(closed)?.destroy();
    open.delete(closed);
  });
  server.on("request", ({ socket }, response) => {
    const connection = connectionOf(socket);
    answering.add(connection);
    response.once("close", () => answering.delete(connection));
  });
}

/** What the sockets of a connection have in common: with TLS, a request's is another object than the connection's. */
type Connection = Socket | string;

function connectionOf(socket: Socket): Connection {
  const { remoteAddress, remotePort } = socket;
  return remotePort === undefined ? socket : `${remoteAddress} ${remotePort}`;
}

function leastUseful(
  open: ReadonlyMap<Connection, Socket>,
  answering: ReadonlySet<Connection>,
): Connection | undefined {
  const [oldest] = open.keys();
  for (const connection of open.keys()) if (!answering.has(connection)) return connection;
  return oldest;
}
