import { readdir } from "node:fs/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TestPod } from "../support/node/test-pod.ts";
import { CnitoolNode } from "./cnitool-node.ts";
import { cniVersions, pluginReleases } from "./tools.ts";

/** Versions as their order. */
const since = (version: string, first: string): boolean =>
  cniVersions.indexOf(version) >= cniVersions.indexOf(first);

const subnet = "10.89.0.0/24";
const address = /^10\.89\.0\.\d+\/24$/;

const bridgePlugin = {
  type: "bridge",
  bridge: "cbr0",
  isGateway: true,
  ipam: { type: "host-local", ranges: [[{ subnet }]] },
};

function inner(cniVersion: string, ...more: object[]): object {
  return { cniVersion, name: "inner", plugins: [bridgePlugin, ...more] };
}

describe.each(pluginReleases)("cnitool, Plexus and the reference plugins $name", (release) => {
  const { versions } = release;
  const newest = versions.at(-1) as string;
  let runtime: CnitoolNode;
  let pod: TestPod;
  let netns = "";

  beforeAll(async () => {
    const plugins = await release.find();
    runtime = await CnitoolNode.create();
    runtime.node.cniPath = [plugins];
  });
  afterAll(async () => await runtime?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    pod = await runtime.node.newPod();
    netns = pod.netns;
  });

  const links = async (): Promise<string[]> => Object.keys(await pod.links());
  const leases = (): Promise<string[]> => runtime.leases("inner");

  test.each(versions)(
    "%s: ADD prints a result of this version, CHECK finds lost state, and DEL, repeated DEL and GC leave nothing [R-0.1-08] [R-0.1-12] [R-0.3-01] [R-0.3-02] [R-0.3-03] [R-0.3-07] [R-0.3-17] [R-0.4-03] [R-0.4-11] [R-0.4-14] [R-0.4-20] [R-0.4-21] [R-0.4-22] [R-0.4-31] [R-1.0-15] [R-1.0-16] [R-1.0-40] [R-1.1-31]",
    async (version) => {
      await runtime.configure(version, { delegates: [inner(version)] });
      const own = await expectAdd(version);
      expect(await leases()).toEqual([own.split("/")[0]]);
      await runtime.must("del", netns);
      expect(await links()).toEqual([]);
      expect(await leases()).toEqual([]);
      const state = await readdir(runtime.node.stateDir);
      const kept = state.filter((name) => name.startsWith("cnitool-"));
      expect(kept.filter((name) => !name.endsWith(".detached"))).toEqual([]);
      await runtime.must("del", netns);
      if (since(version, "0.4.0")) await expectChecks(await expectAdd(version));
      await expectAdd(version);
      expect(await runtime.must("gc", netns)).toBe("");
      expect(await links()).toEqual([]);
      expect(await leases()).toEqual([]);
      await runtime.must("gc", netns);
      await runtime.must("del", netns);
    },
  );

  /** Returns the address. */
  async function expectAdd(version: string): Promise<string> {
    const result = JSON.parse(await runtime.must("add", netns));
    const [own = ""] = await pod.addresses("eth0");
    expect(own).toMatch(address);
    expectShape(result, { version, own });
    return own;
  }

  /** Calls CHECK from right after ADD until after DEL. */
  async function expectChecks(own: string): Promise<void> {
    expect(await runtime.must("check", netns)).toBe("");
    await pod.run("ip", "address", "del", own, "dev", "eth0");
    const lost = await runtime.run("check", netns);
    expect(lost).toMatchObject({ exitCode: 1, stdout: "" });
    expect(lost.stderr).toMatch(`network inner (eth0): interface eth0 has lost its address ${own}`);
    await pod.run("ip", "address", "add", own, "dev", "eth0");
    await runtime.must("check", netns);
    await pod.run("ip", "link", "del", "eth0");
    const gone = await runtime.run("check", netns);
    expect(gone.stderr).toMatch("network inner (eth0): interface eth0 is gone");
    await runtime.must("del", netns);
    expect(await runtime.run("check", netns)).toMatchObject({ exitCode: 1 });
  }

  test.each(cniVersions.filter((version) => !versions.includes(version)))(
    "%s: ADD fails with the plugin's message and the network's name if the plugin lacks this CNI version [R-0.4-31]",
    async (version) => {
      await runtime.configure(version, { delegates: [inner(version)] });
      const { exitCode, stderr } = await runtime.run("add", netns);
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(
        /network inner \(eth0\): plugin type="bridge" failed \(add\): incompatible CNI versions/,
      );
      expect(await links()).toEqual([]);
      const status = await runtime.run("status", netns);
      expect(status.exitCode).toBe(1);
    },
  );

  function expectShape(
    result: ResultJson,
    { version, own }: { version: string; own: string },
  ): void {
    expect(result.cniVersion).toBe(version);
    if (!since(version, "0.3.0")) {
      expect(result).toEqual({
        cniVersion: version,
        ip4: { ip: own, gateway: "10.89.0.1" },
        dns: {},
      });
      return;
    }
    const index = result.interfaces.findIndex((entry) => entry.name === "eth0");
    expect(result.interfaces[index]).toMatchObject({ sandbox: `/run/netns/${netns}` });
    expect(result.interfaces.map((entry) => entry.mac).join()).toMatch(/^([0-9a-f:]{17},?){3}$/);
    expect(result.ips).toEqual([
      {
        ...(since(version, "1.0.0") ? {} : { version: "4" }),
        address: own,
        gateway: "10.89.0.1",
        interface: index,
      },
    ]);
  }

  test.each(versions)(
    "%s: STATUS succeeds with a default network, and names a missing one [R-1.1-20] [R-1.1-21]",
    async (version) => {
      await runtime.configure(version, { delegates: [inner(version)] });
      expect(await runtime.must("status", netns)).toBe("");
      await runtime.configure(version, { clusterNetwork: "elsewhere" });
      const { exitCode, stderr } = await runtime.run("status", netns);
      // libcni asks lists below 1.1.0 nothing.
      expect(exitCode).toBe(since(version, "1.1.0") ? 1 : 0);
      if (exitCode === 1) expect(stderr).toMatch(/pods cannot be attached: .*elsewhere/);
      await runtime.configure(version, { delegates: [inner(version)] });
      await runtime.must("add", netns);
      await runtime.must("del", netns);
    },
  );

  test("CNI_IFNAME names the interface, CNI_ARGS reach the IPAM plugin, and a gateway alone adds no route [R-0.1-13] [R-0.3-05] [R-0.4-35] [R-1.0-13]", async () => {
    await runtime.configure("1.0.0", { delegates: [inner("1.0.0")] });
    const options = { ifName: "data7", args: "IgnoreUnknown=1;IP=10.89.0.77" };
    const result = JSON.parse(await runtime.must("add", netns, options)) as ResultJson;
    expect(result.interfaces.at(-1)?.name).toBe("data7");
    expect(await pod.addresses("data7")).toEqual(["10.89.0.77/24"]);
    expect(await links()).toEqual(["data7"]);
    expect(result.ips[0]?.gateway).toBe("10.89.0.1");
    expect(await pod.run("ip", "route", "show", "default")).toBe("");
    await runtime.must("del", netns, options);
    expect(await links()).toEqual([]);
  });

  test("a plugin after Plexus in the runtime's list gets the result of Plexus, and DEL works without the namespace [R-0.4-13] [R-0.3-17]", async () => {
    const after = [{ type: "tuning", mtu: 1400 }];
    await runtime.configure("1.0.0", { delegates: [inner("1.0.0")] }, { after });
    await runtime.must("add", netns);
    expect(await pod.run("cat", "/sys/class/net/eth0/mtu")).toBe("1400");
    await runtime.must("check", netns);
    await runtime.node.lab.deleteNetns(netns);
    await runtime.must("del", netns);
    expect(await leases()).toEqual([]);
  });

  test("the runtime's capabilities reach portmap and bandwidth, and secondary networks are checked too [R-0.3-10] [R-0.4-23]", async () => {
    const { node } = runtime;
    const capabilities = { portMappings: true, bandwidth: true };
    const chain = [
      { type: "portmap", capabilities: { portMappings: true }, snat: true },
      { type: "bandwidth", capabilities: { bandwidth: true } },
      { type: "firewall" },
    ];
    const secondary = {
      type: "ptp",
      ipam: { type: "host-local", ranges: [[{ subnet: "10.90.0.0/24" }]] },
    };
    await node.nad("second", { cniVersion: "1.0.0", name: "second", plugins: [secondary] });
    await pod.annotate({ networks: "second" });
    await runtime.configure(newest, { capabilities, delegates: [inner(newest, ...chain)] });
    const options = {
      args: `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name}`,
      capabilities: {
        portMappings: [{ HostPort: 8089, ContainerPort: 80, Protocol: "tcp" }],
        bandwidth: { IngressRate: 8_000_000, IngressBurst: 80_000 },
      },
    };
    await runtime.must("status", netns, options);
    await runtime.must("add", netns, options);
    expect(await links()).toEqual(["eth0", "net1"]);
    expect(await node.lab.run("iptables-save", "-t", "nat")).toMatch("8089");
    expect(await node.lab.run("tc", "qdisc")).toMatch(/tbf .*rate 8Mbit/);
    // portmap 1.1.1 fails CHECK where there is no IPv6 address.
    if (release.name !== "1.1.1") await runtime.must("check", netns, options);
    const [second = ""] = await pod.addresses("net1");
    await pod.run("ip", "address", "del", second, "dev", "net1");
    const check = await runtime.run("check", netns, options);
    expect(check).toMatchObject({ exitCode: 1 });
    if (release.name !== "1.1.1")
      expect(check.stderr).toMatch(`network default/second (net1): interface net1 has lost`);
    await runtime.must("del", netns, options);
    expect(await node.lab.run("iptables-save", "-t", "nat")).not.toMatch("8089");
    expect(await links()).toEqual([]);
  });

  test("ADD fails if a plugin precedes Plexus in the runtime's list, because its result would be lost [R-0.3-12]", async () => {
    const before = [{ type: "loopback" }];
    await runtime.configure("1.0.0", { delegates: [inner("1.0.0")] }, { before });
    const { exitCode, stderr } = await runtime.run("add", netns);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/plexus must be the first plugin of its list/);
    await runtime.must("del", netns);
  });
});

interface ResultJson {
  readonly cniVersion: string;
  readonly interfaces: { name: string; mac?: string; sandbox?: string }[];
  readonly ips: { address: string; gateway?: string; interface?: number }[];
}
