import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";

export const testPort = 19507;

/** Answers each datagram with a name and the datagram's size, until `stopping` is aborted. */
export async function answerProbes(name: string, stopping: AbortSignal): Promise<void> {
  const socket = await listen();
  socket.on("message", ({ length }, { port, address }) => {
    // With a forged source, two pods would answer each other endlessly.
    if (port === testPort) return;
    // The prober counts what gets lost.
    socket.send(`${name} ${length}`, port, address, () => undefined);
  });
  await once(stopping, "abort");
  socket.close();
}

/** On the addresses of both families, or of IPv4 alone where the kernel has no IPv6. */
async function listen(): Promise<Socket> {
  try {
    return await bind(createSocket("udp6"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAFNOSUPPORT") throw error;
    return bind(createSocket("udp4"));
  }
}

async function bind(socket: Socket): Promise<Socket> {
  socket.bind(testPort);
  await once(socket, "listening");
  return socket;
}
