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

/** A network of a container, as in docker run --network. */
interface Attachment {
  readonly network: string;
  readonly ip?: string;
  readonly driverOpts?: Readonly<Record<string, string>>;
}

/** How a container is run. */
export interface ContainerOptions {
  readonly name: string;
  readonly attachment: Attachment;
  /** Host ports by container port: `{"80/tcp": "18080"}`. */
  readonly published?: Readonly<Record<string, string>>;
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
    this.withName(options.name).withNetworkMode(options.attachment.network);
    Object.assign(this.createOpts, createOptions(options));
  }
}

function createOptions(options: ContainerOptions): CreateOptions {
  const { attachment, mac, command = waiting } = options;
  const { network, ip, driverOpts } = attachment;
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
  const { published } = options;
  if (published === undefined) return new DockerContainer(options).start();
  return runPublished(options, published);
}

/**
 * Runs a container without testcontainers, which would wait until dockerd lists the published ports:
 * dockerd never lists those of a remote driver.
 */
async function runPublished(
  options: ContainerOptions,
  published: Readonly<Record<string, string>>,
): Promise<RunningContainer> {
  const client = (await getContainerRuntimeClient()).container;
  const ports = Object.entries(published);
  const container = await client.dockerode.createContainer({
    ...createOptions(options),
    name: options.name,
    Image: busyboxImage,
    ExposedPorts: Object.fromEntries(ports.map(([port]) => [port, {}])),
    HostConfig: {
      NetworkMode: options.attachment.network,
      PortBindings: Object.fromEntries(
        ports.map(([port, hostPort]) => [port, [{ HostPort: hostPort }]]),
      ),
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
