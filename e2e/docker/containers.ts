import {
  GenericContainer,
  getContainerRuntimeClient,
  type StartedTestContainer,
} from "testcontainers";
import { busyboxImage } from "../cluster/machine/images.ts";

/** The client of the dockerd that testcontainers found. */
export type Docker = Awaited<
  ReturnType<typeof getContainerRuntimeClient>
>["container"]["dockerode"];

type CreateOptions = Parameters<Docker["createContainer"]>[0];

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
export type RunningContainer = Pick<
  StartedTestContainer,
  "getId" | "getName" | "getIpAddress" | "exec"
>;

/** Waits, and exits at once on SIGTERM. */
const waiting = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"];

/** A container with options that testcontainers does not support. */
class DockerContainer extends GenericContainer {
  constructor(options: ContainerOptions) {
    super(busyboxImage);
    this.withName(options.name).withNetworkMode(options.network);
    Object.assign(this.createOpts, createOptions(options));
  }
}

function createOptions(options: ContainerOptions): CreateOptions {
  const { network, ip, driverOpts, mac, command = waiting } = options;
  const endpoint = {
    ...(ip === undefined ? {} : { IPAMConfig: { IPv4Address: ip } }),
    ...(driverOpts === undefined ? {} : { DriverOpts: driverOpts }),
    ...(mac === undefined ? {} : { MacAddress: mac }),
  };
  return {
    Cmd: [...command],
    StopTimeout: 1,
    ...(mac === undefined ? {} : { MacAddress: mac }),
    NetworkingConfig: { EndpointsConfig: { [network]: endpoint } },
  };
}

/** Runs a container. */
export async function runContainer(options: ContainerOptions): Promise<RunningContainer> {
  if (options.published === undefined) return new DockerContainer(options).start();
  return runPublished(options);
}

/**
 * Runs a container without testcontainers, which would wait until dockerd lists the published ports:
 * dockerd never lists those of a remote driver.
 */
async function runPublished(options: ContainerOptions): Promise<RunningContainer> {
  const client = (await getContainerRuntimeClient()).container;
  const container = await client.dockerode.createContainer({
    ...createOptions(options),
    name: options.name,
    Image: busyboxImage,
    ExposedPorts: { "80/tcp": {} },
    HostConfig: {
      NetworkMode: options.network,
      PortBindings: { "80/tcp": [{ HostPort: options.published }] },
    },
  });
  await container.start();
  const { NetworkSettings } = await container.inspect();
  return {
    getId: () => container.id,
    getName: () => options.name,
    getIpAddress: (network) => NetworkSettings.Networks[network]?.IPAddress ?? "",
    exec: (command) => client.exec(container, [command].flat()),
  };
}

/** Runs a command in a container and returns its trimmed output. @throws Error when it fails */
export async function execIn(container: RunningContainer, ...command: string[]): Promise<string> {
  const { exitCode, output } = await container.exec(command);
  if (exitCode === 0) return output.trim();
  throw new Error(`${container.getName()}: ${command.join(" ")}: ${exitCode}: ${output}`);
}

/** Whether a container reaches an address. */
export async function pings(from: RunningContainer, to: string): Promise<boolean> {
  const family = to.includes(":") ? ["-6"] : [];
  const { exitCode } = await from.exec(["ping", ...family, "-c", "1", "-W", "2", to]);
  return exitCode === 0;
}
