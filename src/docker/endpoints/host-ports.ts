import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { PortMapping } from "#npwg/selection/network-selection.ts";
import type { PublishedPort } from "./endpoint-options.ts";

/** Binds a port of the host for a moment, 0 for any. Undefined when it is in use. */
export type ProbePort = (
  port: number,
  at: Pick<PublishedPort, "protocol" | "hostIP">,
) => Promise<number | undefined>;

/** Attempts to get a port from the kernel, which may return one that another endpoint has. */
const anyPortAttempts = 20;

/** A host port that another endpoint has. No process holds it: the kernel has a rule for it. */
export interface TakenPort {
  readonly mapping: PortMapping;
  readonly endpointId: string;
  readonly networkId: string;
}

/** What an endpoint publishes. */
export interface ChosenPorts {
  readonly portMappings: readonly PortMapping[];
  /** Endpoints that publish the ports instead, if Join shows that the container is the same. */
  readonly sharesPortsWith: readonly string[];
}

interface HostPorts {
  readonly networkId: string;
  readonly taken: readonly TakenPort[];
  readonly probe: ProbePort;
}

/** Chooses a port of the host for each published one. @throws Error when none is free */
export async function chooseHostPorts(
  published: readonly PublishedPort[],
  { networkId, taken, probe }: HostPorts,
): Promise<ChosenPorts> {
  const chosen: PortMapping[] = [];
  const owners = new Set<string>();
  for (const port of published) {
    const owner = ownerElsewhere(port, taken, networkId);
    if (owner !== undefined) {
      owners.add(owner);
      continue;
    }
    const inUse = [...taken.map(({ mapping }) => mapping), ...chosen];
    const isTaken = (hostPort: number): boolean =>
      inUse.some((other) => collides(other, { ...port, hostPort }));
    const hostPort = await choose(port, isTaken, probe);
    const { containerPort, protocol, hostIP } = port;
    chosen.push(omitUndefined({ hostPort, containerPort, protocol, hostIP }));
  }
  return { portMappings: chosen, sharesPortsWith: [...owners] };
}

/** The endpoints that have one of the requested ports of the host. */
export function holdersOf(
  published: readonly PublishedPort[],
  taken: readonly TakenPort[],
): readonly string[] {
  const isRequested = ({ mapping }: TakenPort): boolean => {
    const { hostPort } = mapping;
    return published.some(
      (port) =>
        hostPort >= port.hostPort &&
        hostPort <= port.hostPortEnd &&
        collides(mapping, { ...port, hostPort }),
    );
  };
  const holders = taken.filter(isRequested);
  return [...new Set(holders.map(({ endpointId }) => endpointId))];
}

/** The endpoint of another network with the requested port; no container is in a network twice. */
function ownerElsewhere(
  port: PublishedPort,
  taken: readonly TakenPort[],
  networkId: string,
): string | undefined {
  if (port.hostPort === 0 || port.hostPort !== port.hostPortEnd) return undefined;
  const owners = taken.filter(({ mapping }) => collides(mapping, port));
  const isElsewhere = owners.every((owner) => owner.networkId !== networkId);
  return isElsewhere ? owners[0]?.endpointId : undefined;
}

async function choose(
  port: PublishedPort,
  isTaken: (hostPort: number) => boolean,
  probe: ProbePort,
): Promise<number> {
  const { hostPort, hostPortEnd, containerPort, protocol, hostIP = "0.0.0.0" } = port;
  const length = hostPort === 0 ? anyPortAttempts : hostPortEnd - hostPort + 1;
  for (let index = 0; index < length; index++) {
    const candidate = hostPort === 0 ? 0 : hostPort + index;
    if (candidate !== 0 && isTaken(candidate)) continue;
    const free = await probe(candidate, port);
    if (free !== undefined && !isTaken(free)) return free;
  }
  const wanted = hostPort === hostPortEnd ? `${hostPort}` : `${hostPort}-${hostPortEnd}`;
  throw new Error(
    `cannot publish port ${containerPort}/${protocol}: port ${wanted} of ${hostIP} is in use`,
  );
}

function collides(
  a: PortMapping,
  b: Pick<PortMapping, "hostPort" | "protocol" | "hostIP">,
): boolean {
  const isAny = (ip = "0.0.0.0"): boolean => ip === "0.0.0.0" || ip === "::";
  const sameAddress = isAny(a.hostIP) || isAny(b.hostIP) || a.hostIP === b.hostIP;
  return a.hostPort === b.hostPort && a.protocol === b.protocol && sameAddress;
}

/** The kernel's default ephemeral ports. */
const ephemeralPorts = { first: 32_768, count: 28_232 } as const;

/** Binds and releases the port. SCTP, which Node does not support, is not tried. */
export const probeHostPort: ProbePort = async (port, { protocol, hostIP }) => {
  if (protocol === "sctp") {
    const { first, count } = ephemeralPorts;
    return port === 0 ? first + Math.floor(Math.random() * count) : port;
  }
  try {
    return protocol === "tcp" ? await bindTcp(port, hostIP) : await bindUdp(port, hostIP);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined;
    throw error;
  }
};

async function bindTcp(port: number, host: string | undefined): Promise<number> {
  const server = createServer().listen(port, host);
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : port;
}

async function bindUdp(port: number, host: string | undefined): Promise<number> {
  const socket = createSocket(host?.includes(":") ? "udp6" : "udp4").bind(port, host);
  await once(socket, "listening");
  const { port: bound } = socket.address();
  socket.close();
  return bound;
}
