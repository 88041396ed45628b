// SPDX-License-Identifier: Apache-2.0

import {
  GenericContainer,
  type getContainerRuntimeClient,
  type StartedTestContainer,
} from "testcontainers";
import { busyboxImage } from "../cluster/machine/images.ts";

/** The client of the engine that testcontainers has found. */
export type Docker = Awaited<
  ReturnType<typeof getContainerRuntimeClient>
>["container"]["dockerode"];

/** A network of a container, as docker run --network has it. */
export interface Attachment {
  readonly network: string;
  readonly ip?: string;
  readonly driverOpts?: Readonly<Record<string, string>>;
}

/** How a container is run. */
export interface ContainerOptions {
  readonly name: string;
  readonly attachment: Attachment;
  /** Ports of the machine by container port: `{"80/tcp": "18080"}`. */
  readonly published?: Readonly<Record<string, string>>;
  readonly mac?: string;
  readonly command?: readonly string[];
  /** Whether the engine starts it again. */
  readonly restart?: "always";
}

/** Waits, and ends as soon as it is told to. */
const waiting = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"];

/** A container with options for which testcontainers has no words. */
class EngineContainer extends GenericContainer {
  readonly #options: ContainerOptions;

  constructor(options: ContainerOptions) {
    super(busyboxImage);
    this.#options = options;
    this.withName(options.name).withNetworkMode(options.attachment.network);
    this.withCommand([...(options.command ?? waiting)]);
  }

  protected override async beforeContainerCreated(): Promise<void> {
    const { attachment, published = {}, mac, restart } = this.#options;
    const { network, ip, driverOpts } = attachment;
    this.hostConfig.PortBindings = Object.fromEntries(
      Object.entries(published).map(([port, hostPort]) => [port, [{ HostPort: hostPort }]]),
    );
    if (restart !== undefined) this.hostConfig.RestartPolicy = { Name: restart };
    const ports = Object.keys(published).map((port) => [port, {}]);
    Object.assign(this.createOpts, {
      ExposedPorts: Object.fromEntries(ports),
      StopTimeout: 1,
      ...(mac === undefined ? {} : { MacAddress: mac }),
      NetworkingConfig: {
        EndpointsConfig: {
          [network]: {
            ...(ip === undefined ? {} : { IPAMConfig: { IPv4Address: ip } }),
            ...(driverOpts === undefined ? {} : { DriverOpts: driverOpts }),
            ...(mac === undefined ? {} : { MacAddress: mac }),
          },
        },
      },
    });
  }
}

/** Runs a container. */
export function runContainer(options: ContainerOptions): Promise<StartedTestContainer> {
  return new EngineContainer(options).start();
}

/** Runs a command in a container and returns its trimmed output. @throws Error when it fails */
export async function execIn(
  container: StartedTestContainer,
  ...command: string[]
): Promise<string> {
  const { exitCode, output } = await container.exec(command);
  if (exitCode === 0) return output.trim();
  throw new Error(`${container.getName()}: ${command.join(" ")}: ${exitCode}: ${output}`);
}

/** Whether one container reaches an address. */
export async function pings(from: StartedTestContainer, to: string): Promise<boolean> {
  const family = to.includes(":") ? ["-6"] : [];
  const { exitCode } = await from.exec(["ping", ...family, "-c", "1", "-W", "2", to]);
  return exitCode === 0;
}
