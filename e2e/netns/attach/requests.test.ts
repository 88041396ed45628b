import { expect } from "vitest";
import { hostKinds } from "../../support/host-state.ts";
import { bridge, hostLocal, list, macvlan, ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { test } from "../../support/node/test.ts";

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = ptp("default", 40);
  const capabilities = { ips: true, mac: true };
  const fixed = { ipam: { type: "static" }, capabilities };
  await node.nad("macvlan-static", macvlan("macvlan-static", 41, fixed));
  await node.nad("bridge-static", bridge("bridge-static", 42, { ...fixed, isGateway: false }));
  await node.nad("bridge-pool", bridge("bridge-pool", 43, { capabilities }));
  await node.nad(
    "bridge-args",
    bridge("bridge-args", 44, { isGateway: false, ipam: { type: "static" } }),
  );
});

const addresses = ["10.99.0.7/24", "fd99::7/64"];

test.for(["macvlan-static", "bridge-static"])(
  "%s: the requested addresses and MAC are in the pod, its status and its pings [N-4.1.2.1.3.2a] [N-4.1.2.1.4.2a] [N-4.1.2.1.3a] [N-4.1.2.1.4a]",
  async (network, { node }) => {
    const pods = [];
    for (const host of [7, 8]) {
      const ips = addresses.map((address) => address.replace("7/", `${host}/`));
      const mac = `02:AA:00:00:00:0${host}`;
      const pod = await node.pod(`${network}-${host}`, { networks: [{ name: network, ips, mac }] });
      await pod.mustAdd();
      expect(await pod.addresses("net1")).toEqual(ips);
      expect((await pod.links()).net1?.address).toBe(mac.toLowerCase());
      expect(await pod.status()).toMatchObject([
        { default: true, interface: "eth0" },
        {
          name: `default/${network}`,
          interface: "net1",
          ips: ips.map((ip) => ip.split("/")[0]),
          mac: mac.toLowerCase(),
          default: false,
        },
      ]);
      pods.push(pod);
    }
    await pods[0]?.ping("10.99.0.8", "net1");
    await pods[0]?.ping("fd99::8", "net1");
    for (const pod of pods) await pod.mustDel();
  },
);

test("an address of a host-local pool is leased as asked; one outside is refused and leaves nothing", async ({
  node,
}) => {
  const good = await node.pod("pool", { networks: [{ name: "bridge-pool", ips: ["10.43.0.77"] }] });
  await good.mustAdd();
  expect(await good.addresses("net1")).toEqual(["10.43.0.77/24"]);
  const before = await node.hostState();
  const bad = await node.pod("outside", {
    networks: [{ name: "bridge-pool", ips: ["192.0.2.1"] }],
  });
  const taken = await node.pod("taken", {
    networks: [{ name: "bridge-pool", ips: ["10.43.0.77"] }],
  });
  expect(errorOf(await bad.add()).msg).toMatch(/default\/bridge-pool \(net1\).*192\.0\.2\.1/);
  expect(errorOf(await taken.add()).msg).toMatch(/10\.43\.0\.77/);
  expect(await node.changesSince(before, hostKinds)).toEqual([]);
  await good.mustDel();
});

test("static refuses an address without a prefix length [N-4.1.2.1.3a]", async ({ node }) => {
  const pod = await node.pod("no-prefix", {
    networks: [{ name: "macvlan-static", ips: ["10.99.0.9"] }],
  });
  expect(errorOf(await pod.add()).msg).toContain("default/macvlan-static");
  expect(await pod.links()).toEqual({});
});

test("cni-args reach the plugin: static takes its addresses, bridge its MAC [S-303] [N-4.1.2.1.6a]", async ({
  node,
}) => {
  const args = { ips: ["10.98.0.3/24"], mac: "02:bb:00:00:00:03" };
  const pod = await node.pod("args", { networks: [{ name: "bridge-args", "cni-args": args }] });
  await pod.mustAdd();
  expect(await pod.addresses("net1")).toEqual(args.ips);
  expect((await pod.links()).net1?.address).toBe(args.mac);
  await pod.mustDel();
});

test("an IP in the runtime's CNI_ARGS goes to the default network alone", async ({ node }) => {
  node.defaultNetwork = list("default-static", {
    type: "ptp",
    ipam: { type: "host-local", subnet: "10.45.0.0/24" },
  });
  const pod = await node.pod("args-ip", { networks: "bridge-pool" });
  await pod.mustAdd({ args: "IP=10.45.0.99" });
  expect(await pod.addresses("eth0")).toEqual(["10.45.0.99/24"]);
  expect((await pod.addresses("net1"))[0]).toMatch(/^10\.43\.0\./);
  await pod.mustDel();
});

test("requests for the default network come with its annotation", async ({ node }) => {
  const value = JSON.stringify([
    {
      name: "macvlan-static",
      namespace: "default",
      ips: ["10.97.0.2/24"],
      mac: "02:cc:00:00:00:02",
    },
  ]);
  const pod = await node.pod("default-request", {
    annotations: { "v1.multus-cni.io/default-network": value },
  });
  const result = await pod.mustAdd();
  expect(result.ips).toMatchObject([{ address: "10.97.0.2/24" }]);
  expect((await pod.links()).eth0?.address).toBe("02:cc:00:00:00:02");
  await pod.mustDel();
});

test("undeclared requests reach plugins that read CNI_ARGS, and fail the ADD of those that do not", async ({
  node,
}) => {
  const requests = { ips: ["10.44.9.9/24"], mac: "02:dd:00:00:00:09" };
  const networks = [{ name: "bridge-args", ...requests }];
  const refused = await node.pod("undeclared", { networks });
  expect(errorOf(await refused.add()).msg).toMatch(/capability "ips", "mac"/);
  node.confExtra = { undeclaredRequests: "cniArgs" };
  const served = await node.pod("cni-args", { networks });
  await served.mustAdd();
  expect(await served.addresses("net1")).toEqual(requests.ips);
  expect((await served.links()).net1?.address).toBe(requests.mac);
  await served.mustDel();
  await node.nad("ptp", ptp("ptp", 47));
  const ignored = await node.pod("ignored", { networks: [{ name: "ptp", mac: requests.mac }] });
  const before = await node.hostState();
  expect(errorOf(await ignored.add()).msg).toMatch(
    /network default\/ptp \(net1\): plugin ptp ignored the key "mac": the pod asks for 02:dd:00:00:00:09, the result has /,
  );
  expect(await node.changesSince(before)).toEqual([]);
  node.confExtra = {};
});

test("host-local leases an address of each family although it reads CNI_ARGS, too", async ({
  node,
}) => {
  const capabilities = { ips: true };
  const ipam = hostLocal(46, { v6: true });
  await node.nad("dual", bridge("dual", 46, { ipam, capabilities }));
  const ips = ["10.46.0.77/24", "fd00:46::77/64"];
  const pod = await node.pod("dual", { networks: [{ name: "dual", ips }] });
  await pod.mustAdd();
  expect(await pod.addresses("net1")).toEqual(ips);
  await pod.mustDel();
});
