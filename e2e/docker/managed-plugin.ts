import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { busyboxImage } from "../cluster/machine/images.ts";
import { distPath } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { pings } from "./containers.ts";
import { type DockerMachine, outside } from "./docker-machine.ts";
import type { DockerLab } from "./lab.ts";

const plugin = "managed";
const driver = `${plugin}:latest`;

/** The driver as a managed plugin, disabled on disposal. */
class ManagedPlugin implements AsyncDisposable {
  readonly #machine: DockerMachine;

  private constructor(machine: DockerMachine) {
    this.#machine = machine;
  }

  /** Enables the plugin with flags for the driver. */
  static async enable(machine: DockerMachine, ...flags: string[]): Promise<ManagedPlugin> {
    const args = ["--reconcile-seconds 1", ...flags].join(" ");
    const settings = [`networks.source=${machine.manifestsDir}`, `args=${args}`];
    await machine.docker("plugin", "set", plugin, ...settings);
    await machine.docker("plugin", "enable", plugin);
    return new ManagedPlugin(machine);
  }

  /** The state of each of its endpoints. */
  async endpoints(): Promise<string[]> {
    const dir = `${this.#machine.dir}/data/plugins/*/rootfs/var/lib/plexus/docker/endpoints`;
    const script = `for file in ${dir}/*.json; do [ ! -e "$file" ] || { cat "$file" && echo; }; done`;
    const states = await this.#machine.run("sh", "-c", script);
    return states.split("\n").filter(Boolean);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#machine.docker("plugin", "disable", "--force", plugin);
  }
}

/** The driver as a managed plugin, with a separate file system. */
export function managedPluginScenarios(lab: DockerLab): void {
  beforeAll(() =>
    lab.fixture.machine.docker("plugin", "create", plugin, distPath("docker-plugin")),
  );

  test("a managed plugin keeps networks attached, and detaches endpoints that a killed dockerd forgets", async () => {
    const { machine, docker } = lab.fixture;
    await using managed = await ManagedPlugin.enable(machine);
    await lab.fixture.createNetwork("red", { name: plugin, driver });
    const [one, two] = await lab.runPair(plugin);
    expect(await pings(one, two.getIpAddress(plugin))).toBe(true);
    expect(await pings(one, outside.address)).toBe(true);
    await waitUntil("the driver has seen both containers", async () =>
      (await managed.endpoints()).every((state) => state.includes("sandboxSeen")),
    );
    // Long enough for a driver that cannot see containers' namespaces to detach them.
    await sleep(3000);
    expect(await managed.endpoints()).toHaveLength(2);
    await machine.stopDockerd("SIGKILL");
    await machine.startDockerd();
    await waitUntil("all endpoints are gone", async () => (await managed.endpoints()).length === 0);
    const three = await lab.run("three", plugin);
    expect(await pings(three, outside.address)).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
    expect(await managed.endpoints()).toEqual([]);
    await docker.getNetwork(plugin).remove();
  });

  test("containers and services of a swarm are attached to its networks", async () => {
    const { machine, docker } = lab.fixture;
    await machine.docker("swarm", "init", "--advertise-addr", outside.machine);
    const subnet = ["--subnet", "10.71.0.0/24", "--gateway", "10.71.0.1"];
    const definition = [...subnet, "-o", "plexus.network=red"];
    const create = ["network", "create", "-d", driver, "--attachable"];
    const expectSwarmNetwork = async (managed: ManagedPlugin): Promise<void> => {
      expect((await docker.getNetwork("swarmed").inspect()).Scope).toBe("swarm");
      const [one, two] = await lab.runPair("swarmed");
      expect(two.getIpAddress("swarmed")).toMatch(/^10\.71\.0\./);
      expect(await pings(one, "two")).toBe(true);
      expect(await pings(one, outside.address)).toBe(true);
      await lab.fixture.removeAll();
      await waitUntil("all is detached", async () => (await managed.endpoints()).length === 0);
      await machine.docker("network", "rm", "swarmed");
    };
    {
      await using managed = await ManagedPlugin.enable(machine);
      await machine.docker("network", "create", "--config-only", ...definition, "config");
      await machine.docker(...create, "--scope", "swarm", "--config-from", "config", "swarmed");
      await expectSwarmNetwork(managed);
    }
    await using managed = await ManagedPlugin.enable(
      machine,
      ...["--scope global", "--connectivity-scope global"],
    );
    await machine.docker(...create, ...definition, "swarmed");
    const service = ["--name", "web", "--no-resolve-image", "--endpoint-mode", "dnsrr"];
    // The first process of a container ignores SIGTERM without a handler.
    const task = [
      "--network",
      "swarmed",
      "--stop-grace-period",
      "1s",
      busyboxImage,
      "sleep",
      "600",
    ];
    await machine.docker("service", "create", ...service, ...task);
    const client = await lab.run("client", "swarmed");
    await waitUntil("the service answers by its name", () => pings(client, "web"));
    await machine.docker("service", "rm", "web");
    await expectSwarmNetwork(managed);
    await machine.docker("network", "rm", "config");
    await machine.docker("swarm", "leave", "--force");
  });
}
