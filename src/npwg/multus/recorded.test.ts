import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseCachedAdd } from "./cached-add.ts";
import { parseMultusNetworks } from "./networks-file.ts";

/* Files as Multus 4.3.0 wrote them, for one pod in three networks (multus.md §1.12). */

const dir = new URL("../../../e2e/fixtures/multus/", import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, dir), "utf8");
const containerId = "a".repeat(64);
const source = "x";

test("parseMultusNetworks() reads the networks that Multus recorded, with capability arguments", () => {
  const networks = parseMultusNetworks(read("networks"), { source, cniVersion: "1.0.0" });
  expect(
    networks.map(({ displayName, ifName, list }) => [
      displayName,
      ifName,
      list.name,
      list.cniVersion,
    ]),
  ).toEqual([
    ["main", undefined, "main", "1.0.0"],
    ["default/storage", "data0", "storage", "1.0.0"],
    ["default/single", undefined, "single", "0.3.1"],
  ]);
  expect(networks.map(({ list }) => list.plugins.map(({ raw }) => [raw.type, raw.ipam]))).toEqual([
    [
      ["ptp", { type: "host-local", subnet: "10.20.0.0/24" }],
      ["portmap", undefined],
    ],
    [
      ["macvlan", { type: "host-local", ranges: [[{ subnet: "10.21.0.0/24" }]] }],
      ["portmap", undefined],
    ],
    [["bridge", { type: "host-local", subnet: "10.22.0.0/24" }]],
  ]);
  expect(networks[0]?.capabilityArgs).toEqual({});
  expect(networks[1]?.capabilityArgs).toEqual({ ips: ["10.21.0.77/24"], mac: "02:00:00:00:00:77" });
});

test.each([
  ["main", "eth0", "10.20.0.2/24"],
  ["storage", "data0", "10.21.0.77/24"],
  ["single", "net2", "10.22.0.2/24"],
])("parseCachedAdd() reads libcni's cached result of network %s", (network, ifName, address) => {
  const cached = parseCachedAdd(read(`results/${network}-${ifName}`), {
    network,
    containerId,
    ifName,
  });
  expect(cached.result).toMatchObject({ ips: [{ address }] });
  expect(cached.conf).toMatchObject({ name: network });
  expect(cached.cniArgs).toContainEqual(["K8S_POD_NAME", "web"]);
});

test("parseCachedAdd() rejects another attachment's result, and accepts plain results of old releases", () => {
  const key = { network: "main", containerId, ifName: "eth0" };
  expect(() => parseCachedAdd(read("results/single-net2"), key)).toThrow(
    expect.objectContaining({ code: 6, message: expect.stringContaining("networkName: must be") }),
  );
  const result = { cniVersion: "0.3.1", ips: [] };
  expect(parseCachedAdd(JSON.stringify(result), key)).toEqual({
    cniArgs: [],
    capabilityArgs: {},
    result,
  });
});

const cached = {
  kind: "cniCacheV1",
  networkName: "main",
  containerId,
  ifName: "eth0",
};
const parseCached = (keys: object): unknown =>
  parseCachedAdd(JSON.stringify({ ...cached, ...keys }), {
    network: "main",
    containerId,
    ifName: "eth0",
  });

test("parseCachedAdd() accepts an ADD without arguments, configuration and result", () => {
  expect(parseCached({})).toEqual({ cniArgs: [], capabilityArgs: {} });
});

test.each<[cniArg: unknown, message: string]>([
  [["a"], "cniArgs[0]: must be a key and a value"],
  [["a", "b", "c"], "cniArgs[0]: must be a key and a value"],
  [[1, "b"], "cniArgs[0]: must be a key and a value"],
  [["a", 1], "cniArgs[0]: must be a key and a value"],
  ["a=b", "cniArgs[0]: must be a key and a value"],
  [["a", "b;c=d"], "contains ; or NUL"],
])("parseCachedAdd() rejects the CNI argument %j", (cniArg, message) => {
  expect(() => parseCached({ cniArgs: [cniArg] })).toThrow(message);
});

const bytes = (conf: unknown): string => Buffer.from(JSON.stringify(conf)).toString("base64");

const single = { Bytes: bytes({ name: "a", type: "x" }) };
const loaded = {
  CNINetworkConfigList: { Name: "a", Plugins: [{ Bytes: bytes({ type: "x" }) }] },
};

test.each<[string, object, isComplete: boolean]>([
  ["a single plugin", single, true],
  ["no plugins of a list", { ...single, ConfList: { plugins: [] } }, true],
  ["plugins of a list", { ...single, ConfList: { plugins: [{}] } }, false],
  ["no loaded plugins", { ...single, CNINetworkConfigList: { Plugins: [] } }, true],
  ["loaded plugins", loaded, true],
])("parseMultusNetworks() says whether %s are all that plugins need", (_, network, isComplete) => {
  const [read] = parseMultusNetworks(JSON.stringify([network]), { source, cniVersion: "" });
  expect(read?.isComplete).toBe(isComplete);
});

test.each<[string, loaded: object, switches: object]>([
  ["no version", {}, { cniVersion: "0.4.0", disableCheck: false, disableGC: false }],
  ["a version", { CNIVersion: "1.1.0" }, { cniVersion: "1.1.0" }],
  ["switches", { DisableCheck: true, DisableGC: true }, { disableCheck: true, disableGC: true }],
])("parseMultusNetworks() reads a loaded list with %s", (_, keys, expected) => {
  const network = { CNINetworkConfigList: { ...loaded.CNINetworkConfigList, ...keys } };
  const [read] = parseMultusNetworks(JSON.stringify([network]), { source, cniVersion: "0.4.0" });
  expect(read?.list).toMatchObject(expected);
});

test("parseMultusNetworks() limits neither plugins nor, up to 256, networks", () => {
  const Plugins = new Array(40).fill({ Bytes: bytes({ type: "x" }) });
  const long = { CNINetworkConfigList: { Name: "a", Plugins } };
  const text = JSON.stringify(new Array(256).fill(long));
  expect(parseMultusNetworks(text, { source, cniVersion: "" })).toHaveLength(256);
});

test.each<[string, string]>([
  ["invalid JSON", "{"],
  ["an object", "{}"],
  ["an empty list", "[]"],
  ["too many networks", JSON.stringify(new Array(257).fill(single))],
  ["a null entry", "[null]"],
  ["an entry without a configuration", '[{"Name":"a"}]'],
  ["an invalid configuration", JSON.stringify([{ Bytes: "!!!!" }])],
  ["a path as plugin type", JSON.stringify([{ Bytes: bytes({ name: "a", type: "../x" }) }])],
  [
    "an invalid interface name",
    JSON.stringify([{ Bytes: bytes({ name: "a", type: "x" }), ifnameRequest: "a/b" }]),
  ],
])("parseMultusNetworks() rejects %s", (_, text) => {
  expect(() => parseMultusNetworks(text, { source, cniVersion: "" })).toThrow(
    expect.objectContaining({ code: expect.any(Number), message: expect.stringContaining(source) }),
  );
});
