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
  expect(parseCachedAdd(JSON.stringify(result), key)).toMatchObject({ result });
});

const bytes = (conf: unknown): string => Buffer.from(JSON.stringify(conf)).toString("base64");

test.each<[string, string]>([
  ["invalid JSON", "{"],
  ["an object", "{}"],
  ["an empty list", "[]"],
  ["too many networks", JSON.stringify(new Array(257).fill({}))],
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
