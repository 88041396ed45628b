import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { checkNotMetaPlugin, isMetaPluginType } from "./meta-plugins.ts";

const check =
  (...plugins: JsonObject[]) =>
  (): void => {
    const conf = { name: "multus", cniVersion: "1.0.0", plugins };
    checkNotMetaPlugin(parseNetConfList(conf, { source: "test" }), "ns/net");
  };

test.each<[field: string, type: string, conf: JsonObject]>([
  ...["plexus", "multus", "multus-shim", "genie", "danm"].map(
    (type): [string, string, JsonObject] => ["type", type, { type }],
  ),
  ["ipam.type", "plexus", { type: "bridge", ipam: { type: "plexus" } }],
  ["ipam.type", "multus", { type: "bridge", IPAM: { Type: "multus" } }],
  ["ipam.type", "danm", { type: "bridge", ipam: { type: "host-local" }, Ipam: { type: "danm" } }],
  ["delegate.type", "plexus", { type: "flannel", delegate: { type: "plexus" } }],
])("checkNotMetaPlugin() refuses %s: %s anywhere in a list: %j [S-402]", (field, type, conf) => {
  expect(isMetaPluginType(type)).toBe(true);
  const message = `network "ns/net": plugins[1].${field}: "${type}" is a meta-plugin and cannot be a delegate`;
  expect(check({ type: "bridge" }, conf)).toThrow(expect.objectContaining({ code: 7, message }));
});

test("checkNotMetaPlugin() accepts other plugins, including those with a fixed delegate", () => {
  expect(check({ type: "flannel" }, { type: "portmap" })).not.toThrow();
});
