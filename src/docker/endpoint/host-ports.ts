import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { DriverError } from "#docker/driver-error.ts";
import type { PortMapping } from "#npwg/selection/network-selection.ts";
import type { PublishedPort } from "./endpoint-options.ts";

/** Takes a port of the host for a moment: 0 = any. Resolves to the port; undefined when it is in use. */
export type ProbePort = (
  port: number,
  at: Pick<PublishedPort, "protocol" | "hostIP">,
) => Promise<number | undefined>;

/** How often an arbitrary port is asked for that is then found to be another endpoint's. */
const anyPortAttempts = 20;

/**
 * Chooses the host's port of each published one, as the plugin `portmap` wants one: the only one, the
 * first of a range that is free, or any that is. `taken` are those of other endpoints, whose
 * rules in the kernel no process holds.
 * @throws DriverError when none is free
 */
export async function chooseHostPorts(
  published: readonly PublishedPort[],
  { taken, probe }: { readonly taken: readonly PortMapping[]; readonly probe: ProbePort },
): Promise<PortMapping[]> {
  const chosen: PortMapping[] = [];
  for (const port of published) {
    const isTaken = (hostPort: number): boolean =>
      [...taken, ...chosen].some((other) => collides(other, { ...port, hostPort }));
    const hostPort = await choose(port, { isTaken, probe });
    const { containerPort, protocol, hostIP } = port;
    chosen.push({ hostPort, containerPort, protocol, ...(hostIP === undefined ? {} : { hostIP }) });
  }
  return chosen;
}

interface Choice {
  readonly isTaken: (hostPort: number) => boolean;
  readonly probe: ProbePort;
}

async function choose(port: PublishedPort, { isTaken, probe }: Choice): Promise<number> {
  const candidates =
    port.hostPort === 0
      ? new Array<number>(anyPortAttempts).fill(0)
      : range(port.hostPort, port.hostPortEnd);
  for (const candidate of candidates) {
    if (candidate !== 0 && isTaken(candidate)) continue;
    const free = await probe(candidate, port);
    if (free !== undefined && !isTaken(free)) return free;
  }
  const { hostPort, hostPortEnd, containerPort, protocol, hostIP = "0.0.0.0" } = port;
  const wanted = hostPort === hostPortEnd ? `${hostPort}` : `${hostPort}-${hostPortEnd}`;
  throw new DriverError(
    `cannot publish port ${containerPort}/${protocol}: port ${wanted} of ${hostIP} is in use`,
  );
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

function collides(
  a: PortMapping,
  b: Pick<PortMapping, "hostPort" | "protocol" | "hostIP">,
): boolean {
  const anywhere = [a.hostIP, b.hostIP].some(
    (ip) => ip === undefined || ip === "0.0.0.0" || ip === "::",
  );
  return (
    a.hostPort === b.hostPort && a.protocol === b.protocol && (anywhere || a.hostIP === b.hostIP)
  );
}

/** Ports that the kernel gives to whoever asks for any. */
const anyPort = { first: 32_768, count: 28_232 } as const;

/** Binds the port, and lets go of it at once. SCTP, which Node does not have, is not tried. */
export const probeHostPort: ProbePort = async (port, { protocol, hostIP }) => {
  if (protocol === "sctp") {
    return port === 0 ? anyPort.first + Math.floor(Math.random() * anyPort.count) : port;
  }
  try {
    return protocol === "tcp" ? await bindTcp(port, hostIP) : await bindUdp(port, hostIP);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined;
    throw error;
  }
};

async function bindTcp(port: number, host: string | undefined): Promise<number> {
  const server = createServer();
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : port;
}

async function bindUdp(port: number, host: string | undefined): Promise<number> {
  const socket = createSocket(host?.includes(":") ? "udp6" : "udp4");
  socket.bind(port, host);
  await once(socket, "listening");
  const { port: bound } = socket.address();
  socket.close();
  return bound;
}
