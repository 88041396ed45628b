// SPDX-License-Identifier: Apache-2.0

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { busyboxImage } from "../cluster/machine/images.ts";
import { differences, type HostState } from "../support/host-state.ts";
import { chained, hostLocal, list, macvlan } from "../support/networks.ts";
import { manifestText, nad } from "../support/node/manifests.ts";
import { waitUntil } from "../support/wait.ts";
import type { DockerBuild } from "./builds.ts";
import { DockerMachine } from "./docker-machine.ts";

/** A bridge that is the containers' gateway, with the plugins for published ports and Docker's firewall. */
function gatewayBridge(name: string, net: number, extra: object = {}): object {
  const bridge = {
    type: "bridge",
    bridge: `br${net}`,
    isGateway: true,
    ipMasq: true,
    mtu: 1400,
    hairpinMode: true,
    ipam: hostLocal(net, { routes: [{ dst: "0.0.0.0/0" }] }),
    ...extra,
  };
  const portmap = { type: "portmap", capabilities: { portMappings: true }, snat: true };
  return chained(list(name, bridge), portmap, { type: "firewall" });
}

/** The definitions of the networks that every machine has, by name. */
const networks = {
  red: gatewayBridge("red", 71),
  blue: gatewayBridge("blue", 72, { ipam: hostLocal(72) }),
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
};

/** A definition without a network. */
const tuned = chained(gatewayBridge("tuned", 77), {
  type: "tuning",
  sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" },
});

/** Waits, and exits at once on SIGTERM. */
const waiting = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"];

/** A container's network as `docker inspect` shows it. */
interface Endpoint {
  readonly IPAddress: string;
  readonly GlobalIPv6Address: string;
  readonly MacAddress: string;
  readonly Gateway: string;
}

/** A machine with running dockerd and driver. Containers are called by their names. */
export class DockerLab {
  #machine: DockerMachine | undefined;
  /** The machine's state before the test. */
  #before: HostState = {};

  get machine(): DockerMachine {
    if (this.#machine === undefined) throw new Error("the machine could not be started");
    return this.#machine;
  }

  /** Starts everything, with a network for each definition. */
  async start(name: DockerBuild["name"]): Promise<void> {
    const machine = await DockerMachine.create(name);
    this.#machine = machine;
    for (const [each, config] of Object.entries({ ...networks, tuned })) {
      const path = join(machine.manifestsDir, `${each}.yaml`);
      await writeFile(path, manifestText([nad(each, config)]));
    }
    await machine.startDriver();
    await machine.startDockerd();
    await machine.docker("load", "--input", machine.imageArchive);
    const names = Object.keys(networks);
    for (const network of names) await this.createNetwork(network, network);
    // Bridges and the plugins' chains stay after their first use.
    await Promise.all(names.map((network) => this.run(network, [], { network })));
    await this.run("published", ["--publish", "18079:80"]);
    await this.removeAll();
  }

  async remember(): Promise<void> {
    this.#before = await this.machine.state();
  }

  /** Creates a network from a definition. Without a subnet, Docker chooses no address. */
  async createNetwork(name: string, definition: string, ...flags: string[]): Promise<void> {
    const ipam = flags.includes("--subnet") ? [] : ["--ipam-driver", "null"];
    const driver = flags.includes("--driver") ? [] : ["--driver", "plexus"];
    const options = ["--opt", `plexus.network=${definition}`, ...flags];
    await this.machine.docker("network", "create", ...driver, ...ipam, ...options, name);
  }

  /** Runs a container with flags of `docker run`. */
  async run(
    name: string,
    flags: readonly string[] = [],
    { network = "red", command = waiting }: { network?: string; command?: string[] } = {},
  ): Promise<void> {
    const own = ["--name", name, "--network", network, "--stop-timeout", "1"];
    await this.machine.docker("run", "--detach", ...own, ...flags, busyboxImage, ...command);
  }

  /** Runs the containers `one` and `two` on a network. */
  async runPair(network = "red"): Promise<void> {
    await Promise.all(["one", "two"].map((name) => this.run(name, [], { network })));
  }

  /** Runs a command in a container and returns its trimmed output. @throws Error when it fails */
  exec(container: string, ...command: string[]): Promise<string> {
    return this.machine.docker("exec", container, ...command);
  }

  /** Whether a container reaches an address. */
  pings(from: string, to: string): Promise<boolean> {
    const family = to.includes(":") ? ["-6"] : [];
    return this.exec(from, "ping", ...family, "-c", "1", "-W", "2", to).then(
      () => true,
      () => false,
    );
  }

  /** What dockerd knows of a container in a network. */
  async endpoint(container: string, network = "red"): Promise<Endpoint> {
    const [shown] = JSON.parse(await this.machine.docker("inspect", container));
    return shown.NetworkSettings.Networks[network];
  }

  /** Removes every container. */
  async removeAll(): Promise<void> {
    const ids = (await this.machine.docker("ps", "--all", "--quiet")).split("\n").filter(Boolean);
    if (ids.length > 0) await this.machine.docker("rm", "--force", ...ids);
  }

  /** Removes every container, and checks that the machine gets back to its previous state. */
  async expectNothingLeft(): Promise<void> {
    await this.removeAll();
    const compare = async (): Promise<string[]> => [
      ...differences(this.#before, await this.machine.state()),
      ...(await this.machine.endpoints()).map((name) => `+ endpoints: ${name}`),
    ];
    await waitUntil("nothing is left", async () => (await compare()).length === 0, {
      timeoutMs: 20_000,
      intervalMs: 200,
    }).catch(() => undefined);
    expect(await compare()).toEqual([]);
  }
}

/** Starts a machine before the tests of this file; after each test no container may leave anything. */
export function useDockerLab(name: DockerBuild["name"]): DockerLab {
  const lab = new DockerLab();
  beforeAll(() => lab.start(name));
  beforeEach(() => lab.remember());
  afterEach(() => lab.expectNothingLeft());
  afterAll(() => lab.machine[Symbol.asyncDispose]());
  return lab;
}
