import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import type { DockerBuild } from "./builds.ts";
import { execIn, pings, type RunningContainer } from "./containers.ts";
import { outside } from "./docker-machine.ts";
import { failureScenarios } from "./failures.ts";
import { useDockerLab } from "./lab.ts";
import { managedPluginScenarios } from "./managed-plugin.ts";

/** Answers every connection on port 80 with its name. */
const greeter = ["sh", "-c", "while :; do hostname | nc -l -p 80; done"];

/** The scenarios for one Docker Engine. Every test restores the machine's state. */
export function dockerScenarios(name: DockerBuild["name"]): void {
  const lab = useDockerLab(name);
  const inspect = (container: RunningContainer) =>
    lab.fixture.docker.getContainer(container.id).inspect();

  test("containers on a bridge reach each other by name and address, and a host outside", async () => {
    const [one, two] = await lab.runPair("red");
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
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("containers on a macvlan network reach each other by name and address", async () => {
    const [one, two] = await lab.runPair("wire");
    expect(await pings(one, two.getIpAddress("wire"))).toBe(true);
    expect(await pings(one, "two")).toBe(true);
    expect(await execIn(one, "ip", "route")).not.toContain("default");
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("containers on a routed network reach each other and their gateway in both families", async () => {
    const [one, two] = await lab.runPair("dual");
    const { NetworkSettings } = await inspect(two);
    const { IPAddress, GlobalIPv6Address } = NetworkSettings.Networks.dual!;
    for (const address of [IPAddress, GlobalIPv6Address]) {
      expect(address).not.toBe("");
      await waitUntil(`${address} answers`, () => pings(one, address));
    }
    expect(await pings(one, outside.address)).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("a published port is reachable from the machine and from outside", async () => {
    const container = await lab.run("web", "red", { published: "18080", command: greeter });
    const greeting = await execIn(container, "hostname");
    const { machine } = lab.fixture;
    const { busybox } = machine.build;
    const ask = ["timeout", "5", busybox, "nc", outside.machine, "18080"] as const;
    // Between two answers, nothing listens in the container.
    await waitUntil("the machine gets an answer", async () => {
      return (await machine.run(...ask)) === greeting;
    });
    await waitUntil("others get an answer", async () => {
      return (await machine.runOutside(...ask)) === greeting;
    });
    const other = lab.run("other", "red", { published: "18080" });
    await expect(other).rejects.toThrow("port 18080 of 0.0.0.0 is in use");
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("a running container joins and leaves another network", async () => {
    const [one, two] = await lab.runPair("red");
    const other = await lab.run("three", "blue");
    const blue = lab.fixture.docker.getNetwork("blue");
    await blue.connect({ Container: one.id });
    expect(await pings(one, other.getIpAddress("blue"))).toBe(true);
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    expect(await execIn(one, "ip", "-o", "address")).toMatch(/eth1 +inet 10\.72\.0\./);
    await blue.disconnect({ Container: one.id });
    expect(await execIn(one, "ip", "-o", "link")).not.toContain("eth1");
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("a container starts on several networks, one of which publishes its port", async () => {
    const container = await lab.run("web", "red", { published: "18081" });
    await lab.fixture.docker.getContainer(container.id).stop({ t: 1 });
    await lab.fixture.docker.getNetwork("wire").connect({ Container: container.id });
    await lab.fixture.docker.getNetwork("blue").connect({ Container: container.id });
    await lab.fixture.docker.getContainer(container.id).start();
    const addresses = await execIn(container, "ip", "-o", "-4", "address");
    for (const net of [71, 72, 74]) expect(addresses).toContain(`inet 10.${net}.0.`);
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("a container gets the addresses, MAC and bandwidth that it requests", async () => {
    const mac = "02:00:00:00:00:77";
    const driverOpts = { "plexus.ips": "10.73.0.77/24" };
    const fixed = await lab.run("fixed", "fixed", { driverOpts, mac });
    expect(fixed.getIpAddress("fixed")).toBe("10.73.0.77");
    expect(await execIn(fixed, "cat", "/sys/class/net/eth0/address")).toBe(mac);
    await lab.run("shaped", "shaped", { driverOpts: { "plexus.bandwidth": "10M" } });
    expect(await lab.fixture.machine.run("tc", "qdisc", "show")).toContain("rate 10Mbit");
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("Docker's IPAM chooses the addresses of a network with a subnet", async () => {
    const range = { subnet: "10.71.0.0/24", gateway: "10.71.0.1" };
    await lab.fixture.createNetwork("red", { name: "chosen", ...range });
    const container = await lab.run("chosen", "chosen", { ip: "10.71.0.99" });
    expect(container.getIpAddress("chosen")).toBe("10.71.0.99");
    expect(await execIn(container, "ip", "-o", "-4", "address")).toContain("inet 10.71.0.99/24");
    expect(await pings(container, outside.address)).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
    await lab.fixture.docker.getNetwork("chosen").remove();
  });

  test("a restarted container gets its network again", async () => {
    const [one, two] = await lab.runPair("red");
    await lab.fixture.docker.getContainer(two.id).restart({ t: 1 });
    expect(await pings(one, "two")).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("twelve containers that start at once get different addresses", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `c${index}`);
    const containers = await Promise.all(names.map((each) => lab.run(each)));
    const addresses = new Set(containers.map((each) => each.getIpAddress("red")));
    expect(addresses.size).toBe(12);
    expect(await pings(containers[0]!, containers[11]!.getIpAddress("red"))).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test("a network that cannot be used is rejected with the reason", async () => {
    await expect(
      lab.fixture.createNetwork("tuned", { options: { "plexus.network": "tuned" } }),
    ).rejects.toThrow("the sysctls of plugin tuning");
    await expect(
      lab.fixture.createNetwork("red", { name: "odd", options: { "plexus.colour": "x" } }),
    ).rejects.toThrow("-o plexus.colour: unknown key");
  });

  test(`direct mode ${name === "release" ? "is rejected" : "attaches inside the container"}`, async () => {
    await lab.fixture.createNetwork("tuned", { options: { "plexus.mode": "direct" } });
    const starting = lab.run("inside", "tuned");
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
    await lab.fixture.removeAll();
    await waitUntil(
      "it is detached",
      async () => (await lab.fixture.machine.endpoints()).length === 0,
    );
    await lab.fixture.docker.getNetwork("tuned").remove();
  });

  failureScenarios(lab);
  managedPluginScenarios(lab);
}
