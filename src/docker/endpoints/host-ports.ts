import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { DriverError } from "#docker/driver-error.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { PortMapping } from "#npwg/selection/network-selection.ts";
import type { PublishedPort } from "./endpoint-options.ts";

/** Takes a port of the host for a moment: 0 = any. Resolves to the port; undefined when it is in use. */
export type ProbePort = (
  port: number,
  at: Pick<PublishedPort, "protocol" | "hostIP">,
) => Promise<number | undefined>;

/** How often an arbitrary port is asked for that is then found to be another endpoint's. */
const anyPortAttempts = 20;

/** A port of the host that another endpoint has. No process holds it: there is a rule in the kernel. */
export interface TakenPort {
  readonly mapping: PortMapping;
  readonly endpointId: string;
  readonly networkId: string;
}

/** What an endpoint publishes. */
export interface ChosenPorts {
  readonly portMappings: readonly PortMapping[];
  /**
   * Endpoints that publish the ports instead. The engine asks for a container's ports on each of its
   * networks, and one of them is enough; whether it is the same container shows when it joins.
   */
  readonly sharesPortsWith: readonly string[];
}

/** Where ports are chosen. */
interface HostPorts {
  readonly networkId: string;
  readonly taken: readonly TakenPort[];
  readonly probe: ProbePort;
}

/**
 * Chooses the host's port of each published one, as the plugin `portmap` wants one: the only one, the
 * first of a range that is free, or any that is.
 * @throws DriverError when none is free
 */
export async function chooseHostPorts(
  published: readonly PublishedPort[],
  { networkId, taken, probe }: HostPorts,
): Promise<ChosenPorts> {
  const chosen: PortMapping[] = [];
  const owners = new Set<string>();
  for (const port of published) {
    const owner = ownerElsewhere(port, { networkId, taken });
    if (owner !== undefined) owners.add(owner);
    else {
      const isTaken = (hostPort: number): boolean =>
        [...taken.map(({ mapping }) => mapping), ...chosen].some((other) =>
          collides(other, { ...port, hostPort }),
        );
      const hostPort = await choose(port, { isTaken, probe });
      const { containerPort, protocol, hostIP } = port;
      chosen.push(omitUndefined({ hostPort, containerPort, protocol, hostIP }));
    }
  }
  return { portMappings: chosen, sharesPortsWith: [...owners] };
}

/** The endpoint that has the one port that will do, if it is of another network: no container is twice in one. */
function ownerElsewhere(
  port: PublishedPort,
  { networkId, taken }: Omit<HostPorts, "probe">,
): string | undefined {
  if (port.hostPort === 0 || port.hostPort !== port.hostPortEnd) return undefined;
  const owners = taken.filter(({ mapping }) => collides(mapping, port));
  const isElsewhere = owners.every((owner) => owner.networkId !== networkId);
  return isElsewhere ? owners[0]?.endpointId : undefined;
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
