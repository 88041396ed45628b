// SPDX-License-Identifier: Apache-2.0

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { HostState } from "../support/host-state.ts";
import { distPath } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { execIn, pings, type RunningContainer } from "./containers.ts";
import { outside } from "./docker-machine.ts";
import type { EngineBuild } from "./engines.ts";
import { DockerFixture } from "./fixture.ts";

const networks = ["red", "blue", "fixed", "wire", "shaped", "dual"] as const;

/** Answers every connection on port 80 with its name. */
const greeter = ["sh", "-c", "while :; do hostname | nc -l -p 80; done"];

/** What one engine and the driver have to do together. Every test leaves the machine as it was. */
export function dockerScenarios(name: EngineBuild["name"]): void {
  let fixture: DockerFixture;
  let before: HostState;

  const run = (each: string, network: string = "red"): Promise<RunningContainer> =>
    fixture.run({ name: each, attachment: { network } });
  const runPair = (network: string): Promise<[RunningContainer, RunningContainer]> =>
    Promise.all([run("one", network), run("two", network)]);
  const inspect = (container: RunningContainer) =>
    fixture.docker.getContainer(container.getId()).inspect();

  beforeAll(async () => {
    fixture = await DockerFixture.create(name);
    for (const network of networks) await fixture.createNetwork(network);
    // Bridges and the plugins' own chains stay from their first use on.
    await Promise.all(networks.map((network) => run(network, network)));
    const attachment = { network: "red" };
    await fixture.run({ name: "published", attachment, published: { "80/tcp": "18079" } });
    await fixture.removeAll();
  });
  afterAll(() => fixture?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    before = await fixture.machine.state();
  });
  afterEach(() => fixture.removeAll());

  test("containers on a bridge reach each other by name and address, and the world", async () => {
    const [one, two] = await runPair("red");
    const address = two.getIpAddress("red");
    expect(address).toMatch(/^10\.71\.0\./);
    expect(await pings(one, address)).toBe(true);
    expect(await pings(one, "two")).toBe(true);
    expect(await pings(one, outside.address)).toBe(true);
    expect(await execIn(one, "ip", "link", "show", "eth0")).toContain("mtu 1400");
    const { NetworkSettings } = await inspect(two);
    const { MacAddress, Gateway } = NetworkSettings.Networks.red!;
    expect(await execIn(two, "cat", "/sys/class/net/eth0/address")).toBe(MacAddress);
    expect(Gateway).toBe("10.71.0.1");
    await fixture.expectNothingLeft(before);
  });

  test("containers on a macvlan network reach each other by name and address", async () => {
    const [one, two] = await runPair("wire");
    expect(await pings(one, two.getIpAddress("wire"))).toBe(true);
    expect(await pings(one, "two")).toBe(true);
    expect(await execIn(one, "ip", "route")).not.toContain("default");
    await fixture.expectNothingLeft(before);
  });

  test("containers on a routed network reach each other and their gateway in both families", async () => {
    const [one, two] = await runPair("dual");
    const { NetworkSettings } = await inspect(two);
    const { IPAddress, GlobalIPv6Address } = NetworkSettings.Networks.dual!;
    for (const address of [IPAddress, GlobalIPv6Address]) {
      expect(address).not.toBe("");
      await waitUntil(`${address} answers`, () => pings(one, address));
    }
    expect(await pings(one, outside.address)).toBe(true);
    await fixture.expectNothingLeft(before);
  });

  test("a published port is reached from the machine and from outside", async () => {
    const container = await fixture.run({
      name: "web",
      attachment: { network: "red" },
      published: { "80/tcp": "18080" },
      command: greeter,
    });
    const greeting = await execIn(container, "hostname");
    const { busybox } = fixture.machine.build;
    const ask = ["timeout", "5", busybox, "nc", outside.machine, "18080"] as const;
    await waitUntil(
      "the port answers",
      async () => (await fixture.machine.run(...ask)) === greeting,
    );
    expect(await fixture.machine.runOutside(...ask)).toBe(greeting);
    await expect(
      fixture.run({
        name: "other",
        attachment: { network: "red" },
        published: { "80/tcp": "18080" },
      }),
    ).rejects.toThrow("port 18080 of 0.0.0.0 is in use");
    await fixture.expectNothingLeft(before);
  });

  test("a container joins and leaves further networks while it runs", async () => {
    const [one, two] = await runPair("red");
    const other = await run("three", "blue");
    const blue = fixture.docker.getNetwork("blue");
    await blue.connect({ Container: one.getId() });
    expect(await pings(one, other.getIpAddress("blue"))).toBe(true);
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    expect(await execIn(one, "ip", "-o", "address")).toMatch(/eth1 +inet 10\.72\.0\./);
    await blue.disconnect({ Container: one.getId() });
    expect(await execIn(one, "ip", "-o", "link")).not.toContain("eth1");
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    await fixture.expectNothingLeft(before);
  });

  test("a container starts on several networks, of which one publishes its port", async () => {
    const container = await fixture.run({
      name: "web",
      attachment: { network: "red" },
      published: { "80/tcp": "18081" },
    });
    await fixture.docker.getContainer(container.getId()).stop({ t: 1 });
    await fixture.docker.getNetwork("wire").connect({ Container: container.getId() });
    await fixture.docker.getNetwork("blue").connect({ Container: container.getId() });
    await fixture.docker.getContainer(container.getId()).start();
    const addresses = await execIn(container, "ip", "-o", "-4", "address");
    for (const net of [71, 72, 74]) expect(addresses).toContain(`inet 10.${net}.0.`);
    await fixture.expectNothingLeft(before);
  });

  test("addresses, MAC and bandwidth are the ones that a container asks for", async () => {
    const fixed = await fixture.run({
      name: "fixed",
      attachment: { network: "fixed", driverOpts: { "plexus.ips": "10.73.0.77/24" } },
      mac: "02:00:00:00:00:77",
    });
    expect(fixed.getIpAddress("fixed")).toBe("10.73.0.77");
    expect(await execIn(fixed, "cat", "/sys/class/net/eth0/address")).toBe("02:00:00:00:00:77");
    await fixture.run({
      name: "shaped",
      attachment: { network: "shaped", driverOpts: { "plexus.bandwidth": "10M" } },
    });
    expect(await fixture.machine.run("tc", "qdisc", "show")).toContain("rate 10Mbit");
    await fixture.expectNothingLeft(before);
  });

  test("the engine's own IPAM chooses the addresses of a network with a subnet", async () => {
    await fixture.createNetwork("red", {
      name: "chosen",
      subnet: "10.71.0.0/24",
      gateway: "10.71.0.1",
    });
    const container = await fixture.run({
      name: "chosen",
      attachment: { network: "chosen", ip: "10.71.0.99" },
    });
    expect(container.getIpAddress("chosen")).toBe("10.71.0.99");
    expect(await execIn(container, "ip", "-o", "-4", "address")).toContain("inet 10.71.0.99/24");
    expect(await pings(container, outside.address)).toBe(true);
    await fixture.expectNothingLeft(before);
    await fixture.docker.getNetwork("chosen").remove();
  });

  test("a container that is restarted gets its network again", async () => {
    const [one, two] = await runPair("red");
    await fixture.docker.getContainer(two.getId()).restart({ t: 1 });
    expect(await pings(one, "two")).toBe(true);
    await fixture.expectNothingLeft(before);
  });

  test("twelve containers start at once, each with an address of its own", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `c${index}`);
    const containers = await Promise.all(names.map((each) => run(each)));
    const addresses = new Set(containers.map((each) => each.getIpAddress("red")));
    expect(addresses.size).toBe(12);
    expect(await pings(containers[0]!, containers[11]!.getIpAddress("red"))).toBe(true);
    await fixture.expectNothingLeft(before);
  });

  test.each(["SIGTERM", "SIGKILL"] as const)(
    "containers keep their network while the driver is ended by %s and started again",
    async (signal) => {
      const [one, two] = await runPair("red");
      await fixture.machine.stopDriver(signal);
      expect(await pings(one, two.getIpAddress("red"))).toBe(true);
      await fixture.machine.startDriver();
      const three = await run("three");
      expect(await pings(three, "one")).toBe(true);
      await fixture.expectNothingLeft(before);
    },
  );

  test("an engine that keeps containers alive takes them over when it is started again", async () => {
    const { machine } = fixture;
    await machine.stopEngine();
    await machine.startEngine({ liveRestore: true });
    const [one, two] = await runPair("red");
    await machine.stopEngine();
    await machine.stopDriver();
    await machine.startDriver();
    await machine.startEngine({ liveRestore: true });
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    await fixture.expectNothingLeft(before);
    await machine.stopEngine();
    await machine.startEngine();
  });

  test("what an engine that was killed has forgotten is detached", async () => {
    const { machine } = fixture;
    await runPair("red");
    await run("three", "wire");
    expect(await machine.endpoints()).toHaveLength(3);
    await machine.stopEngine("SIGKILL");
    await machine.startEngine();
    await waitUntil("all endpoints are gone", async () => (await machine.endpoints()).length === 0);
    await fixture.expectNothingLeft(before);
  });

  test("a network that cannot be used is refused with the reason", async () => {
    await expect(
      fixture.createNetwork("tuned", { options: { "plexus.network": "tuned" } }),
    ).rejects.toThrow("the sysctls of plugin tuning");
    await expect(
      fixture.createNetwork("red", { name: "odd", options: { "plexus.colour": "x" } }),
    ).rejects.toThrow("-o plexus.colour: there is no such option");
  });

  test(`direct mode ${name === "release" ? "is refused" : "attaches inside the container"}`, async () => {
    await fixture.createNetwork("tuned", { options: { "plexus.mode": "direct" } });
    const starting = run("inside", "tuned");
    if (name === "release") {
      await expect(starting).rejects.toThrow("Docker Engine 28 or later");
    } else {
      const container = await starting;
      const shown = await execIn(container, "ip", "-o", "-4", "address", "show", "net0");
      expect(shown).toContain("inet 10.77.0.");
      const filter = "/proc/sys/net/ipv4/conf/net0/arp_filter";
      expect(await execIn(container, "cat", filter)).toBe("1");
      expect(await pings(container, outside.address)).toBe(true);
    }
    await fixture.removeAll();
    await waitUntil("it is detached", async () => (await fixture.machine.endpoints()).length === 0);
    await fixture.docker.getNetwork("tuned").remove();
  });

  // The client that can create plugins comes with the release's engine.
  if (name === "unstable") return;
  test("the driver serves as a managed plugin", async () => {
    const { machine } = fixture;
    await machine.docker("plugin", "create", "managed", distPath("docker-plugin"));
    const settings = [`networks.source=${machine.manifestsDir}`, "args=--reconcile-seconds 1"];
    await machine.docker("plugin", "set", "managed", ...settings);
    await machine.docker("plugin", "enable", "managed");
    await fixture.createNetwork("red", { name: "managed", driver: "managed:latest" });
    const [one, two] = await runPair("managed");
    expect(await pings(one, two.getIpAddress("managed"))).toBe(true);
    expect(await pings(one, outside.address)).toBe(true);
    // Long enough for a driver that does not see containers' namespaces to take them for gone.
    await sleep(4000);
    expect(await pings(one, two.getIpAddress("managed"))).toBe(true);
    await fixture.expectNothingLeft(before);
    await fixture.docker.getNetwork("managed").remove();
    await machine.docker("plugin", "disable", "managed");
    await machine.docker("plugin", "rm", "managed");
  });
}
