import { getContainerRuntimeClient } from "testcontainers";
import { busyboxImage } from "../cluster/machine/images.ts";

/** The client of the dockerd that testcontainers found. */
export type Docker = Awaited<
  ReturnType<typeof getContainerRuntimeClient>
>["container"]["dockerode"];

/** How a container is run. */
export interface ContainerOptions {
  readonly name: string;
  readonly network: string;
  readonly ip?: string;
  /** Options of the network's driver. */
  readonly driverOpts?: Readonly<Record<string, string>>;
  /** The host's port for port 80 of the container. */
  readonly published?: string;
  readonly mac?: string;
  /** @default waits until it is stopped */
  readonly command?: readonly string[];
}

/** A running container. */
export interface RunningContainer {
  readonly id: string;
  readonly name: string;
  /** Its address in a network as dockerd has it; empty when there is none. */
  getIpAddress(network: string): string;
  exec(command: readonly string[]): Promise<{ readonly output: string; readonly exitCode: number }>;
}

/** Waits, and exits at once on SIGTERM. */
const waiting = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"];

/**
 * Runs a container, without the class of testcontainers: that waits until dockerd lists the
 * published ports, and dockerd lists none of a remote driver.
 */
export async function runContainer(options: ContainerOptions): Promise<RunningContainer> {
  const { name, network, ip, driverOpts, published, mac, command = waiting } = options;
  const client = (await getContainerRuntimeClient()).container;
  const ownMac = mac === undefined ? {} : { MacAddress: mac };
  const endpoint = {
    ...(ip === undefined ? {} : { IPAMConfig: { IPv4Address: ip } }),
    ...(driverOpts === undefined ? {} : { DriverOpts: driverOpts }),
    ...ownMac,
  };
  const [ports, bindings] =
    published === undefined
      ? [{}, {}]
      : [{ "80/tcp": {} }, { "80/tcp": [{ HostPort: published }] }];
  const container = await client.dockerode.createContainer({
    ...{ name, Image: busyboxImage, Cmd: [...command], StopTimeout: 1, ...ownMac },
    ExposedPorts: ports,
    HostConfig: { NetworkMode: network, PortBindings: bindings },
    NetworkingConfig: { EndpointsConfig: { [network]: endpoint } },
  });
  await container.start();
  const { NetworkSettings } = await container.inspect();
  return {
    id: container.id,
    name,
    getIpAddress: (of) => NetworkSettings.Networks[of]?.IPAddress ?? "",
    exec: (words) => client.exec(container, [...words]),
  };
}

/** Runs a command in a container and returns its trimmed output. @throws Error when it fails */
export async function execIn(container: RunningContainer, ...command: string[]): Promise<string> {
  const { exitCode, output } = await container.exec(command);
  if (exitCode === 0) return output.trim();
  throw new Error(`${container.name}: ${command.join(" ")}: ${exitCode}: ${output}`);
}

/** Whether a container reaches an address. */
export async function pings(from: RunningContainer, to: string): Promise<boolean> {
  const family = to.includes(":") ? ["-6"] : [];
  const { exitCode } = await from.exec(["ping", ...family, "-c", "1", "-W", "2", to]);
  return exitCode === 0;
}
