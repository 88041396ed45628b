import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import { checkNotMetaPlugin, isMetaPluginType } from "./meta-plugins.ts";

test.each(["plexus", "multus", "multus-shim", "genie", "danm"])(
  "checkNotMetaPlugin() refuses %s anywhere in a list [S-402]",
  (type) => {
    const conf = { name: "net", cniVersion: "1.0.0", plugins: [{ type: "bridge" }, { type }] };
    expect(isMetaPluginType(type)).toBe(true);
    expect(() => checkNotMetaPlugin(parseNetConfList(conf, { source: "test" }), "ns/net")).toThrow(
      expect.objectContaining({
        code: 7,
        message: `network "ns/net": plugins[1].type: "${type}" is a meta-plugin and cannot be a delegate`,
      }),
    );
  },
);

test("checkNotMetaPlugin() lets other plugins pass, those that delegate to one of a kind included", () => {
  const conf = {
    name: "multus",
    cniVersion: "1.0.0",
    plugins: [{ type: "flannel" }, { type: "portmap" }],
  };
  expect(() =>
    checkNotMetaPlugin(parseNetConfList(conf, { source: "test" }), "ns/net"),
  ).not.toThrow();
});

test.each([
  ["ipam", { ipam: { type: "plexus" } }],
  ["ipam", { IPAM: { Type: "multus" } }],
  ["ipam", { ipam: { type: "host-local" }, Ipam: { type: "danm" } }],
  ["delegate", { delegate: { type: "plexus" } }],
])(
  "checkNotMetaPlugin() refuses a plugin that would execute one by its %s: %j [S-402]",
  (key, conf) => {
    const plugins = [{ type: "bridge", ...conf }];
    const list = parseNetConfList(
      { name: "net", cniVersion: "1.0.0", plugins },
      { source: "test" },
    );
    expect(() => checkNotMetaPlugin(list, "ns/net")).toThrow(
      new RegExp(
        `plugins\\[0\\]\\.${key}\\.type: "\\w+" is a meta-plugin and cannot be a delegate`,
      ),
    );
  },
);
