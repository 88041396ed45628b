import { expect, test } from "vitest";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import type { JsonObject } from "#lib/json.ts";
import { networkLabel } from "./label.ts";

const node = "/proc/self/ns/net";

/** A node with the links `enp3s0`, also named `storage`, and `br-lan`. */
function newLab(): EngineLab {
  const lab = new EngineLab();
  lab.kernel.addNamespace(node);
  for (const name of ["enp3s0", "br-lan"]) lab.kernel.addLink(node, name);
  lab.kernel.setAltNames(node, "enp3s0", ["enx0200", "storage"]);
  return lab;
}

function inventoryOf(lab: EngineLab) {
  return lab.engine.networks({
    conf: lab.conf,
    searchPath: ["/opt/cni/bin"],
    findPlugin: async (type) => lab.plugins.find(type),
    netlink: lab.kernel.transport,
  });
}

/** What the node has of a network with these plugins. */
async function usability(
  plugins: readonly JsonObject[],
  annotations: Readonly<Record<string, string>> = {},
) {
  const lab = newLab();
  lab.source.addNad(
    "shop/net",
    { cniVersion: "1.0.0", name: "net", plugins: [...plugins] },
    annotations,
  );
  const [found] = await inventoryOf(lab);
  return found;
}

const usable = { network: "shop/net", usable: true };
const lacks = (link: string, more = "") => ({
  ...{ network: "shop/net", usable: false, reason: "MasterMissing" },
  message: `the node has no link "${link}", also not as an alternative name${more}`,
});

test.each<[plugin: JsonObject, links: object[]]>([
  [{ type: "macvlan", master: "enp3s0" }, [{ name: "enp3s0", link: "enp3s0" }]],
  [{ type: "vlan", master: "storage" }, [{ name: "storage", link: "enp3s0" }]],
  [{ type: "bridge", bridge: "br-lan" }, [{ name: "br-lan", link: "br-lan" }]],
  [{ type: "bridge", bridge: "br-own", isGateway: true }, []],
  [{ type: "bridge", bridge: "br-own", ipMasq: true }, []],
  [{ type: "bridge", bridge: "br-own", ipam: { type: "host-local" } }, []],
  [{ type: "bridge" }, []],
  [{ type: "ipvlan" }, []],
  [{ type: "macvlan", master: "net7", linkInContainer: true }, []],
  [{ type: "macvlan", master: 7 }, []],
  [{ type: "host-device", device: "eth7" }, []],
  [{ type: "ovs", bridge: "br-ovs" }, []],
])("a network of %j is usable with the links %j", async (plugin, links) => {
  expect(await usability([plugin])).toEqual({ ...usable, links });
});

test.each<[plugin: JsonObject, ...lack: Parameters<typeof lacks>]>([
  [{ type: "macvlan", master: "eth7" }, "eth7"],
  [{ type: "ipvlan", master: "enp3s1" }, "enp3s1", "; did you mean enp3s0?"],
  [{ type: "macvlan", master: "storages" }, "storages", "; did you mean storage?"],
  [{ type: "bridge", bridge: "trunk" }, "trunk"],
  [{ type: "bridge", bridge: "trunk", ipam: { type: "dhcp" } }, "trunk"],
  [{ type: "macvlan", master: "eth7", ipam: { type: "host-local" } }, "eth7"],
  [{ type: "cnv-bridge", bridge: "trunk" }, "trunk"],
])("a network of %j is not usable without %s", async (plugin, link, more) => {
  expect(await usability([plugin])).toEqual({ ...lacks(link, more), links: [{ name: link }] });
});

test("only the first plugin needs a link", async () => {
  const second = { type: "macvlan", master: "eth7" };
  expect(await usability([{ type: "ptp" }, second])).toEqual({ ...usable, links: [] });
});

test("plexus.dev/requires-links replaces the links of the plugin", async () => {
  const macvlan = { type: "macvlan", master: "eth7" };
  const listing = (links: string) => usability([macvlan], { "plexus.dev/requires-links": links });
  expect(await listing("")).toEqual({ ...usable, links: [] });
  expect(await listing("br-lan, storage")).toEqual({
    ...usable,
    links: [
      { name: "br-lan", link: "br-lan" },
      { name: "storage", link: "enp3s0" },
    ],
  });
  const message = `${lacks("a").message}; ${lacks("b").message}`;
  expect(await listing("a,b,")).toMatchObject({ ...lacks("a"), message });
});

test("only the first link that is missing has a suggestion: a definition may list many", async () => {
  const found = await usability([{ type: "ptp" }], {
    "plexus.dev/requires-links": "storag,br-lam",
  });
  const first = lacks("storag", "; did you mean storage?").message;
  expect(found?.message).toBe(`${first}; ${lacks("br-lam").message}`);
});

test("a definition with many or long names of links delays no other", async () => {
  const names = Array.from({ length: 100_000 }, (_, i) => `x${i}`).join(",");
  const [many, long] = [
    await usability([{ type: "ptp" }], { "plexus.dev/requires-links": names }),
    await usability([{ type: "macvlan", master: "x".repeat(100_000) }]),
  ];
  for (const found of [many, long]) {
    expect(found).toMatchObject({ usable: false, reason: "MasterMissing" });
    expect(found?.message?.length).toBeLessThanOrEqual(501);
  }
  expect(many?.links).toHaveLength(32);
  expect(long?.links).toEqual([{ name: "x".repeat(128) }]);
});

test("a network whose plugin is not installed, or may not be executed, is not usable", async () => {
  const lab = newLab();
  lab.source.addNad("shop/missing", network("missing", "macvlan", "tuning"));
  lab.source.addNad("shop/refused", network("refused", "bond"));
  lab.source.addNad("shop/there", network("there", "ptp"));
  const absent = { outcome: "missing", message: "" } as const;
  lab.plugins.setLookup("tuning", absent);
  lab.plugins.setLookup("bond", { outcome: "refused", message: "others than root may write it" });
  expect(await inventoryOf(lab)).toMatchObject([
    {
      ...{ network: "shop/missing", usable: false, reason: "PluginMissing" },
      message: 'failed to find plugin "tuning" in path [/opt/cni/bin]',
    },
    { network: "shop/refused", usable: false, reason: "PluginRefused" },
    { network: "shop/there", usable: true },
  ]);
});

test("the rules of an ADD say which definitions are invalid", async () => {
  const lab = newLab();
  lab.source.addNad("b/text", "{");
  lab.source.addNad("b/meta", network("m", "multus"));
  lab.source.addNad("a/on-disk");
  lab.source.addNad("c/sriov", network("vf", "sriov"), {
    "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf",
  });
  lab.source.addNad("c/marked", network("lan", "bridge"), {
    "k8s.v1.cni.cncf.io/resourceName": "bridge.network.kubevirt.io/lan",
  });
  const found = await inventoryOf(lab);
  expect(found.map(({ message: _, ...each }) => each)).toEqual([
    { network: "a/on-disk", usable: false, reason: "MissingConfiguration" },
    { network: "b/meta", usable: false, reason: "MetaPlugin" },
    { network: "b/text", usable: false, reason: "InvalidDefinition" },
    { network: "c/marked", usable: true, links: [] },
    { network: "c/sriov", usable: true, links: [], resource: "vendor.example/vf" },
  ]);
});

test("the links are listed once, and calls are served between definitions", async () => {
  const lab = newLab();
  for (let i = 0; i < 1000; i++) lab.source.addNad(`shop/net-${i}`, network("n", "macvlan"));
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  const found = await inventoryOf(lab);
  clearImmediate(next);
  expect(found).toHaveLength(1000);
  // One to parse each, and one to compare its links.
  expect(turns).toBeGreaterThanOrEqual(2000);
  expect(lab.kernel.datagrams).toBe(1);
});

test("a node whose links cannot be listed has no inventory", async () => {
  const lab = new EngineLab();
  lab.source.addNad("shop/net", network("net", "macvlan"));
  await expect(inventoryOf(lab)).rejects.toThrow("No such file");
});

test("a definition with plexus.dev/schedule has the label of its nodes, usable or not", async () => {
  const annotations = { "plexus.dev/schedule": "true" };
  const label = "networks.plexus.dev/shop.net";
  expect(await usability([{ type: "ptp" }], annotations)).toMatchObject({ usable: true, label });
  expect(await usability([{ type: "Not A Type" }], annotations)).toMatchObject({
    usable: false,
    label,
  });
  for (const schedule of ["false", "True", ""]) {
    const other = await usability([{ type: "ptp" }], { "plexus.dev/schedule": schedule });
    expect(other).not.toHaveProperty("label");
  }
});

test("a network of devices has no label: who knows the devices tells the scheduler", async () => {
  const withResource = (resource: string) =>
    usability([{ type: "ptp" }], {
      "plexus.dev/schedule": "true",
      "k8s.v1.cni.cncf.io/resourceName": resource,
    });
  expect(await withResource("vendor.example/vf")).not.toHaveProperty("label");
  const marker = "networks.plexus.dev/shop.net";
  expect(await withResource(marker)).toMatchObject({ label: marker });
});

test.each<[plugin: JsonObject, hasLabel: boolean]>([
  [{ type: "macvlan", master: "enp3s0" }, true],
  [{ type: "ipvlan", master: "enp3s0" }, true],
  [{ type: "vlan", master: "enp3s0" }, true],
  [{ type: "bridge", bridge: "br-lan" }, true],
  [{ type: "cnv-bridge", bridge: "br-lan" }, true],
  [{ type: "ptp" }, true],
  [{ type: "dummy" }, true],
  [{ type: "host-device", device: "eth7" }, false],
  [{ type: "macvtap", master: "eth7" }, false],
  [{ type: "sriov" }, false],
  [{ type: "bond", links: [{ name: "eth7" }] }, false],
  [{ type: "constructor" }, false],
])("%j has a label, if asked for: %s", async (plugin, hasLabel) => {
  const schedule = { "plexus.dev/schedule": "true" };
  const label = "networks.plexus.dev/shop.net";
  const found = await usability([plugin], schedule);
  expect(found).toMatchObject({ usable: true });
  expect(found?.label).toBe(hasLabel ? label : undefined);
  const listed = { ...schedule, "plexus.dev/requires-links": "br-lan" };
  expect(await usability([plugin], listed)).toMatchObject({ usable: true, label });
});

test("a link of the node is suggested before those of pods", async () => {
  const lab = new EngineLab();
  lab.kernel.addNamespace(node);
  for (const begin of ["veth", "cali", "lxc"])
    for (let i = 0; i < 100; i++) lab.kernel.addLink(node, `${begin}${i}`);
  lab.kernel.addLink(node, "br-trunk");
  const plugins = [{ type: "macvlan", master: "br-trunks" }];
  lab.source.addNad("shop/net", { cniVersion: "1.0.0", name: "net", plugins });
  expect(await inventoryOf(lab)).toMatchObject([lacks("br-trunks", "; did you mean br-trunk?")]);
});

test("only definitions with a label are looked at for labels", async () => {
  const lab = newLab();
  const conf = { cniVersion: "1.0.0", name: "net", plugins: [{ type: "ptp" }] };
  lab.source.addNad("shop/other", conf);
  lab.source.addNad("shop/asking", conf, { "plexus.dev/schedule": "true" });
  const view = {
    conf: lab.conf,
    searchPath: [],
    findPlugin: async () => ({ outcome: "found" as const }),
  };
  const all = await lab.engine.networks({ ...view, netlink: lab.kernel.transport }, true);
  expect(all.map(({ network }) => network)).toEqual(["shop/asking"]);
});

test.each([
  ["a".repeat(30), "b".repeat(32), `${"a".repeat(30)}.${"b".repeat(32)}`],
  ["a".repeat(30), "b".repeat(33), `${"a".repeat(30)}.${"b".repeat(19)}-`],
  ["a".repeat(63), `b.${"c".repeat(200)}`, `${"a".repeat(50)}-`],
])("the label of %s/%s begins with %s, and is valid and unique", (namespace, name, begin) => {
  const annotations = { "plexus.dev/schedule": "true" };
  const label = networkLabel({ namespace, name, annotations }) ?? "";
  const [prefix, short = ""] = label.split("/");
  expect(prefix).toBe("networks.plexus.dev");
  expect(short.startsWith(begin)).toBe(true);
  expect(short).toMatch(/^[a-z0-9][-a-z0-9.]{0,61}[a-z0-9]$/);
  expect(networkLabel({ namespace, name: `${name}d`, annotations })).not.toBe(label);
});
