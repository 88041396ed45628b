// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import type { DockerBuild } from "./builds.ts";
import { outside } from "./docker-machine.ts";
import { failureScenarios } from "./failures.ts";
import { useDockerLab } from "./lab.ts";
import { managedPluginScenarios } from "./managed-plugin.ts";

/** Answers every connection on port 80 with its name. */
const greeter = ["sh", "-c", "while :; do hostname | nc -l -p 80; done"];

/** The scenarios for one Docker Engine. Every test restores the machine's state. */
export function dockerScenarios(name: DockerBuild["name"]): void {
  const lab = useDockerLab(name);

  test("containers on a bridge reach each other by name and address, and the outside, also after a restart", async () => {
    await lab.runPair();
    const { IPAddress, MacAddress, Gateway } = await lab.endpoint("two");
    expect(IPAddress).toMatch(/^10\.71\.0\./);
    expect(await lab.pings("one", IPAddress)).toBe(true);
    expect(await lab.pings("one", "two")).toBe(true);
    expect(await lab.pings("one", outside.address)).toBe(true);
    expect(await lab.exec("one", "ip", "link", "show", "eth0")).toContain("mtu 1400");
    expect(await lab.exec("two", "cat", "/sys/class/net/eth0/address")).toBe(MacAddress);
    expect(Gateway).toBe("10.71.0.1");
    await lab.machine.docker("restart", "--time", "1", "two");
    expect(await lab.pings("one", "two")).toBe(true);
  });

  test("containers on a macvlan network reach each other by name and address", async () => {
    await lab.runPair("wire");
    expect(await lab.pings("one", (await lab.endpoint("two", "wire")).IPAddress)).toBe(true);
    expect(await lab.pings("one", "two")).toBe(true);
    expect(await lab.exec("one", "ip", "route")).not.toContain("default");
  });

  test("containers on a routed network reach each other and their gateway in both families", async () => {
    await lab.runPair("dual");
    const { IPAddress, GlobalIPv6Address } = await lab.endpoint("two", "dual");
    for (const address of [IPAddress, GlobalIPv6Address]) {
      expect(address).not.toBe("");
      await waitUntil(`${address} answers`, () => lab.pings("one", address));
    }
    expect(await lab.pings("one", outside.address)).toBe(true);
  });

  test("a published port is reachable from the machine and from outside", async () => {
    const publish = ["--publish", "18080:80"];
    await lab.run("web", publish, { command: greeter });
    const greeting = await lab.exec("web", "hostname");
    const { machine } = lab;
    const ask = ["timeout", "5", machine.build.busybox, "nc", outside.machine, "18080"] as const;
    await waitUntil("the port answers", async () => (await machine.run(...ask)) === greeting);
    expect(await machine.runOutside(...ask)).toBe(greeting);
    await expect(lab.run("other", publish)).rejects.toThrow("port 18080 of 0.0.0.0 is in use");
  });

  test("a running container joins and leaves further networks", async () => {
    await lab.runPair();
    await lab.run("three", [], { network: "blue" });
    const two = (await lab.endpoint("two")).IPAddress;
    await lab.machine.docker("network", "connect", "blue", "one");
    const three = (await lab.endpoint("three", "blue")).IPAddress;
    expect(await lab.pings("one", three)).toBe(true);
    expect(await lab.pings("one", two)).toBe(true);
    expect(await lab.exec("one", "ip", "-o", "address")).toMatch(/eth1 +inet 10\.72\.0\./);
    await lab.machine.docker("network", "disconnect", "blue", "one");
    expect(await lab.exec("one", "ip", "-o", "link")).not.toContain("eth1");
    expect(await lab.pings("one", two)).toBe(true);
  });

  test("a container starts on several networks, one of which publishes its port", async () => {
    const { machine } = lab;
    await lab.run("web", ["--publish", "18081:80"]);
    await machine.docker("stop", "web");
    await machine.docker("network", "connect", "wire", "web");
    await machine.docker("network", "connect", "blue", "web");
    await machine.docker("start", "web");
    const addresses = await lab.exec("web", "ip", "-o", "-4", "address");
    for (const net of [71, 72, 74]) expect(addresses).toContain(`inet 10.${net}.0.`);
  });

  test("a container gets the addresses, MAC and bandwidth that it requests", async () => {
    const mac = "02:00:00:00:00:77";
    await lab.run("fixed", ["--mac-address", mac], {
      network: "name=fixed,driver-opt=plexus.ips=10.73.0.77/24",
    });
    expect((await lab.endpoint("fixed", "fixed")).IPAddress).toBe("10.73.0.77");
    expect(await lab.exec("fixed", "cat", "/sys/class/net/eth0/address")).toBe(mac);
    await lab.run("shaped", [], { network: "name=shaped,driver-opt=plexus.bandwidth=10M" });
    expect(await lab.machine.run("tc", "qdisc", "show")).toContain("rate 10Mbit");
  });

  test("Docker's IPAM chooses the addresses of a network with a subnet", async () => {
    const subnet = ["--subnet", "10.71.0.0/24", "--gateway", "10.71.0.1"];
    await lab.createNetwork("chosen", "red", ...subnet);
    await lab.run("chosen", ["--ip", "10.71.0.99"], { network: "chosen" });
    expect((await lab.endpoint("chosen", "chosen")).IPAddress).toBe("10.71.0.99");
    const shown = await lab.exec("chosen", "ip", "-o", "-4", "address");
    expect(shown).toContain("inet 10.71.0.99/24");
    expect(await lab.pings("chosen", outside.address)).toBe(true);
    await lab.removeAll();
    await lab.machine.docker("network", "rm", "chosen");
  });

  test("twelve containers start at once, each with another address", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `c${index}`);
    await Promise.all(names.map((each) => lab.run(each)));
    const endpoints = await Promise.all(names.map((each) => lab.endpoint(each)));
    const addresses = endpoints.map(({ IPAddress }) => IPAddress);
    expect(new Set(addresses).size).toBe(12);
    expect(await lab.pings("c0", addresses[11] ?? "")).toBe(true);
  });

  test("a network that cannot be used is rejected with the reason", async () => {
    await expect(lab.createNetwork("tuned", "tuned")).rejects.toThrow(
      "the sysctls of plugin tuning",
    );
    await expect(lab.createNetwork("odd", "red", "--opt", "plexus.colour=x")).rejects.toThrow(
      "-o plexus.colour: there is no such option",
    );
  });

  test(`direct mode ${name === "release" ? "is rejected" : "attaches inside the container"}`, async () => {
    await lab.createNetwork("tuned", "tuned", "--opt", "plexus.mode=direct");
    const starting = lab.run("inside", [], { network: "tuned" });
    if (name === "release") {
      await expect(starting).rejects.toThrow("Docker Engine 28 or later");
    } else {
      await starting;
      const shown = await lab.exec("inside", "ip", "-o", "-4", "address", "show", "net0");
      expect(shown).toContain("inet 10.77.0.");
      const filter = "/proc/sys/net/ipv4/conf/net0/arp_filter";
      expect(await lab.exec("inside", "cat", filter)).toBe("1");
      expect(await lab.pings("inside", outside.address)).toBe(true);
    }
    await lab.removeAll();
    const { machine } = lab;
    await waitUntil("it is detached", async () => (await machine.endpoints()).length === 0);
    await machine.docker("network", "rm", "tuned");
    // Its bridge stays after its first use.
    await lab.remember();
  });

  failureScenarios(lab);
  managedPluginScenarios(lab);
}
