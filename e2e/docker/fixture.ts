import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getContainerRuntimeClient } from "testcontainers";
import { expect } from "vitest";
import { differences } from "../support/host-state.ts";
import { chained, hostLocal, list, macvlan } from "../support/networks.ts";
import { manifestText, nad } from "../support/node/manifests.ts";
import { waitUntil } from "../support/wait.ts";
import type { DockerBuild } from "./builds.ts";
import type { Docker } from "./containers.ts";
import { DockerMachine, outside } from "./docker-machine.ts";

/** Of several networks; a container may join all of them. */
const sharedRoute = { dst: "10.99.0.0/16" };

/** A bridge that is the containers' gateway, with the plugins for published ports and Docker's firewall. */
function gatewayBridge(name: string, net: number, extra: object = {}): object {
  const bridge = {
    type: "bridge",
    bridge: `br${net}`,
    isGateway: true,
    ipMasq: true,
    mtu: 1400,
    hairpinMode: true,
    ipam: hostLocal(net, { routes: [{ dst: "0.0.0.0/0" }, sharedRoute] }),
    ...extra,
  };
  const portmap = { type: "portmap", capabilities: { portMappings: true }, snat: true };
  return chained(list(name, bridge), portmap, { type: "firewall" });
}

/** The definitions on every machine, by name. */
export const definitions = {
  red: gatewayBridge("red", 71),
  blue: gatewayBridge("blue", 72, { ipam: hostLocal(72, { routes: [sharedRoute] }) }),
  fixed: gatewayBridge("fixed", 73, {
    capabilities: { ips: true, mac: true },
    ipam: { type: "host-local", ranges: [[{ subnet: "10.73.0.0/24" }]] },
  }),
  wire: macvlan("wire", 74, { master: "wire0" }),
  shaped: chained(gatewayBridge("shaped", 75), {
    type: "bandwidth",
    capabilities: { bandwidth: true },
  }),
  dual: list("dual", {
    type: "ptp",
    ipMasq: true,
    ipam: hostLocal(76, { v6: true, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }),
  }),
  tuned: chained(gatewayBridge("tuned", 77), {
    type: "tuning",
    sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" },
  }),
  // Plugins refuse the configuration in ADD and DEL.
  limitless: chained(list("limitless", { type: "bridge", bridge: "br71", ipam: hostLocal(71) }), {
    type: "bandwidth",
    ingressRate: 1_000_000,
  }),
  subnetless: gatewayBridge("subnetless", 71, {
    ipam: { type: "host-local", subnet: "10.71.0.0/33" },
  }),
} as const;

/** How a Docker network is created. */
interface NetworkChoice {
  /** @default the definition's name */
  readonly name?: string;
  /** @default the running driver */
  readonly driver?: string;
  readonly options?: Readonly<Record<string, string>>;
  /** With a subnet, Docker's IPAM chooses the addresses. */
  readonly subnet?: string;
  readonly gateway?: string;
}

/** A machine with running dockerd and driver, and clients for tests. */
export class DockerFixture implements AsyncDisposable {
  readonly machine: DockerMachine;
  readonly docker: Docker;

  private constructor(machine: DockerMachine, docker: Docker) {
    this.machine = machine;
    this.docker = docker;
  }

  /** Starts everything. testcontainers supports one dockerd per process. */
  static async create(name: DockerBuild["name"]): Promise<DockerFixture> {
    const machine = await DockerMachine.create(name);
    process.env.DOCKER_HOST = machine.dockerHost;
    process.env.TESTCONTAINERS_RYUK_DISABLED = "true";
    // Otherwise testcontainers downloads an image to find the machine's address.
    process.env.TESTCONTAINERS_HOST_OVERRIDE = outside.machine;
    for (const [each, config] of Object.entries(definitions)) {
      const path = join(machine.manifestsDir, `${each}.yaml`);
      await writeFile(path, manifestText([nad(each, config)]));
    }
    await machine.startDriver();
    await machine.startDockerd();
    const { container } = await getContainerRuntimeClient();
    const { dockerode } = container;
    const loading = await dockerode.loadImage(createReadStream(machine.imageArchive));
    loading.resume();
    await new Promise((resolve) => loading.once("end", resolve));
    return new DockerFixture(machine, dockerode);
  }

  /** Creates a network from a definition. */
  async createNetwork(
    definition: keyof typeof definitions,
    { options = {}, subnet, gateway, name = definition, driver = "plexus" }: NetworkChoice = {},
  ): Promise<void> {
    const config = subnet === undefined ? undefined : [{ Subnet: subnet, Gateway: gateway }];
    await this.docker.createNetwork({
      Name: name,
      Driver: driver,
      IPAM: config === undefined ? { Driver: "null" } : { Driver: "default", Config: config },
      Options: { "plexus.network": definition, ...options },
    });
  }

  /** Removes every container. */
  async removeAll(): Promise<void> {
    const containers = await this.docker.listContainers({ all: true });
    await Promise.all(
      containers.map(({ Id }) => this.docker.getContainer(Id).remove({ force: true })),
    );
  }

  /** Removes every container, and checks that the machine gets back to its previous state. */
  async expectNothingLeft(before: Awaited<ReturnType<DockerMachine["state"]>>): Promise<void> {
    await this.removeAll();
    const compare = async (): Promise<string[]> => [
      ...differences(before, await this.machine.state()),
      ...(await this.machine.endpoints()).map((name) => `+ endpoints: ${name}`),
    ];
    await waitUntil("nothing is left", async () => (await compare()).length === 0, {
      timeoutMs: 20_000,
      intervalMs: 200,
    }).catch(() => undefined);
    expect(await compare()).toEqual([]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.removeAll().catch(() => undefined);
    await this.machine[Symbol.asyncDispose]();
  }
}
