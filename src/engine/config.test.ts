import { expect, test } from "vitest";
import type { Json } from "#lib/json.ts";
import {
  configForCall,
  defaultEngineConfig,
  engineConfigFromKeys,
  namedPlugins,
  plexusdsListMark,
} from "./config.ts";
import { networkKeys } from "./config-keys.ts";
import { areAccepted, schemaOf } from "./config-table.ts";

const inline = { name: "n", type: "ptp" };

test("configForCall() returns the defaults if neither configuration sets a key", () => {
  expect(configForCall({}, { name: "plexus", type: "plexus", anything: 1 })).toEqual(
    defaultEngineConfig,
  );
  // As docs/operations/reliability.md promises.
  expect(defaultEngineConfig).toMatchObject({ delGraceMs: 5 * 60_000 });
});

test("configForCall() reads Multus's keys from the runtime's conf", () => {
  const conf = {
    clusterNetwork: "flannel",
    defaultNetworks: ["storage"],
    systemNamespaces: ["kube-system", "ops"],
    multusNamespace: "nets",
    namespaceIsolation: true,
    globalNamespaces: "shared, default",
    confDir: "/etc/cni/multus/net.d",
    binDir: "/opt/cni/bin",
    readinessindicatorfile: "/run/ready",
  };
  const { multusNamespace: plexusNamespace, ...same } = conf;
  expect(configForCall({}, conf)).toEqual({
    ...defaultEngineConfig,
    ...same,
    plexusNamespace,
    globalNamespaces: ["shared", "default"],
  });
});

test("configForCall() reads the conf of each call, also right after another one", () => {
  const confs = [{ clusterNetwork: "a" }, { clusterNetwork: "a", confDir: "/x" }, {}];
  for (const conf of [...confs, ...confs.toReversed()])
    expect(configForCall({}, conf)).toEqual({ ...defaultEngineConfig, ...conf });
});

test("configForCall() refuses clusterNetwork together with delegates and names both", () => {
  expect(() => configForCall({}, { clusterNetwork: "a", delegates: [inline] })).toThrow(
    expect.objectContaining({
      code: 7,
      message: expect.stringContaining("delegates: cannot be set with clusterNetwork"),
    }),
  );
});

test("configForCall() ignores former keys, and prefers plexusNamespace to Multus's name", () => {
  const former = { missingDevice: "fail", ignoredRequests: "fail", invalidAnnotation: "fail" };
  expect(configForCall({}, former)).toEqual(defaultEngineConfig);
  const both = { multusNamespace: "a", plexusNamespace: "b" };
  expect(configForCall({}, both).plexusNamespace).toBe("b");
});

test("configForCall() accepts clusterNetwork with an empty list of delegates (multus.md §1.1)", () => {
  const config = configForCall({}, { clusterNetwork: "flannel", delegates: [] });
  expect(config).toEqual({ ...defaultEngineConfig, clusterNetwork: "flannel" });
  expect(configForCall({}, { delegates: [inline], clusterNetwork: "" }).delegates).toEqual([
    inline,
  ]);
});

test.each([
  "clusterNetwork",
  "delegates",
  "defaultNetworks",
  "confDir",
  "binDir",
  "readinessindicatorfile",
])("configForCall() treats %s = null and an empty string as absent, as Go does", (key) => {
  for (const value of [null, ""])
    expect(configForCall({}, { [key]: value })).toEqual(defaultEngineConfig);
});

test("configForCall() accepts globalNamespaces as a list or as a string", () => {
  expect(configForCall({}, { globalNamespaces: ["a", "b"] }).globalNamespaces).toEqual(["a", "b"]);
  expect(configForCall({}, { globalNamespaces: "a,, b ," }).globalNamespaces).toEqual(["a", "b"]);
});

test.each([[["a.example/b"]], [["a.example/*", "b.example/c-*"]], [[]]])(
  "configForCall() accepts markerResources = %j",
  (markerResources) => {
    expect(configForCall({}, { markerResources })).toMatchObject({ markerResources });
  },
);

test("configForCall() prefers the daemon's configuration to the conf's, key by key", () => {
  const config = configForCall({ binDir: "/daemon" }, { binDir: "/conf", confDir: "/conf" });
  expect(config).toMatchObject({ binDir: "/daemon", confDir: "/conf" });
});

const networks = [
  ["clusterNetwork", { clusterNetwork: "/a/a.conf" }],
  ["delegates", { delegates: [inline] }],
] as const;
const others = [{ clusterNetwork: "/b/b.conf" }, { delegates: [{ name: "m", type: "x" }] }];

test.each(networks)("the daemon's %s overrides the default network of plexusd's list", (...row) => {
  for (const conf of others.map((each) => ({ ...each, ...plexusdsListMark })))
    expect(configForCall(row[1], conf)).toEqual({ ...defaultEngineConfig, ...row[1] });
});

test.each(networks)("another list keeps its default network beside the daemon's %s", (...row) => {
  const companions = { readinessindicatorfile: "/ready", auxiliaryCNIChainName: "chain" };
  const daemon = { ...row[1], ...companions };
  for (const conf of others) {
    const own = { ...conf, readinessindicatorfile: "/own" };
    expect(configForCall(daemon, conf)).toEqual({ ...defaultEngineConfig, ...conf });
    expect(configForCall(companions, own)).toEqual({ ...defaultEngineConfig, ...own });
    expect(configForCall({ ...daemon, binDir: "/daemon" }, conf).binDir).toBe("/daemon");
  }
  for (const conf of [{ delegates: [] }, { clusterNetwork: "" }, plexusdsListMark])
    expect(configForCall(daemon, conf)).toEqual({ ...defaultEngineConfig, ...daemon });
});

test.each([
  [{}, {}, "standard"],
  [{ strictness: "multus" }, {}, "multus"],
  [{}, { strictness: "multus" }, "multus"],
  [{ strictness: "standard" }, { strictness: "multus" }, "standard"],
] as const)("of %j in plexusd's file and %j in the conf, %s applies", (file, conf, strictness) => {
  expect(configForCall(engineConfigFromKeys(file), conf)).toEqual({
    ...defaultEngineConfig,
    strictness,
  });
});

test.each([
  ["clusterNetwork", 7],
  ["delegates", ["flannel"]],
  ["defaultNetworks", "storage"],
  ["systemNamespaces", {}],
  ["namespaceIsolation", "true"],
  ["globalNamespaces", 1],
  ["confDir", "relative/dir"],
  ["binDir", "bin"],
  ["readinessindicatorfile", "ready"],
  ["confDir", "/"],
  ["strictness", "lenient"],
  ["auxiliaryCNIChainName", "../chain"],
  ["markerResources", "bridge.network.kubevirt.io/*"],
  ["markerResources", ["*"]],
  ["markerResources", ["bridge.network.kubevirt.io*"]],
  ["markerResources", ["*/br1"]],
  ["markerResources", ["a.example/b", ""]],
])("configForCall() refuses %s = %j and names the key", (key, value) => {
  expect(() => configForCall({}, { [key]: value })).toThrow(
    expect.objectContaining({ code: 7, message: expect.stringContaining(key) }),
  );
});

const values = ["", "a", 7, null, [], {}, [7], [inline], [{ a: [Infinity] }], [inline, { b: {} }]];

test.each(Object.keys(networkKeys))("what is accepted for %s without zod is valid", (key) => {
  const accepted = values.filter((value) => areAccepted(networkKeys, { [key]: value }));
  for (const value of accepted) schemaOf(networkKeys).parse({ [key]: value });
  expect(accepted.length > 0).toBe(key === "clusterNetwork" || key === "delegates");
});

test.each<[value: Json | undefined, plugins: Json[]]>([
  [undefined, []],
  ["istio-cni", []],
  [[{ type: "istio-cni" }, { type: 7 }, null, "linkerd-cni"], [{ type: "istio-cni" }]],
])("namedPlugins() reads %j as %j", (omittedPlugins, plugins) => {
  expect(namedPlugins(omittedPlugins)).toEqual(plugins);
});
