import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";

/**
 * Limits a server to `max` connections: a further one closes the oldest that is not being answered,
 * or else the oldest. `server.maxConnections` would reject the new one, and thereby probes.
 */
export function limitConnections(server: Server | TlsServer, max: number): void {
  /** In the order of opening. */
  const open = new Map<Connection, Socket>();
  const answering = new Set<Connection>();
  server.on("connection", (socket: Socket) => {
    const connection = connectionOf(socket);
    open.set(connection, socket);
    socket.once("close", () => open.delete(connection));
    if (open.size <= max) return;
    const idle = [...open.keys()].find((each) => !answering.has(each));
    const [oldest = connection] = open.keys();
    const closed = idle ?? oldest;
    open.get(closed)?.destroy();
    open.delete(closed);
  });
  server.on("request", ({ socket }, response) => {
    const connection = connectionOf(socket);
    answering.add(connection);
    response.once("close", () => answering.delete(connection));
  });
}

/** Identifies a connection. With TLS, a request has another socket object than its connection. */
type Connection = Socket | string;

function connectionOf(socket: Socket): Connection {
  const { remoteAddress, remotePort } = socket;
  return remotePort === undefined ? socket : `${remoteAddress} ${remotePort}`;
}
