import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { formerKeys } from "#engine/config-keys.ts";
import { statusWaitMs } from "#kube/status-publisher.ts";
import { defaultConfig } from "./config.ts";
import { ConfigError, parseConfig, parseFile } from "./parse.ts";

const outOfRange = "the number is out of range";

function problemsOf(text: string): string[] {
  try {
    parseConfig(text, "config.yaml");
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
}

test("parseConfig() keeps the digits of integers in delegates, and of no others", () => {
  const text =
    "delegates: [{name: n, type: x, a: 9007199254740993, b: {c: [-18446744073709551615, 7]}}]";
  const { delegates } = parseConfig(text, "file").engine;
  const digits = '{"name":"n","type":"x","a":9007199254740993,"b":{"c":[-18446744073709551615,7]}}';
  expect(JSON.stringify(delegates?.[0])).toBe(digits);
  expect(() => parseConfig("delegateTimeoutMs: 9007199254740993", "file")).toThrow(
    /delegateTimeoutMs: Too big/,
  );
});

test.each(["", "# only a comment\n", "{}", "---\n"])("parseConfig(%j) is all defaults", (text) => {
  expect(parseConfig(text, "config.yaml")).toEqual(defaultConfig);
  expect(defaultConfig.engine).toEqual({});
});

test("parseConfig() reads Multus's keys and leaves absent ones unset", () => {
  const text = `
clusterNetwork: /etc/cni/net.d/10-calico.conflist
defaultNetworks: [storage]
systemNamespaces: [kube-system, calico-system]
multusNamespace: networks
namespaceIsolation: true
globalNamespaces: default, shared
confDir: /etc/cni/multus/net.d
binDir: /usr/libexec/cni
readinessindicatorfile: /run/calico/ready
capabilities: {portMappings: true}
`;
  const config = parseConfig(text, "config.yaml");
  expect(config.engine).toEqual({
    clusterNetwork: "/etc/cni/net.d/10-calico.conflist",
    defaultNetworks: ["storage"],
    systemNamespaces: ["kube-system", "calico-system"],
    plexusNamespace: "networks",
    namespaceIsolation: true,
    globalNamespaces: ["default", "shared"],
    confDir: "/etc/cni/multus/net.d",
    binDir: "/usr/libexec/cni",
    readinessindicatorfile: "/run/calico/ready",
  });
  expect(config.nodeConf).toMatchObject({
    binDirs: ["/usr/libexec/cni", "/opt/cni/bin"],
    readinessFile: "/run/calico/ready",
    capabilities: { portMappings: true },
  });
});

test("parseConfig() reads the keys of plexusd", () => {
  const text = `
apiTimeoutMs: 9000
logLevel: debug
cniConfDir: /var/lib/rancher/k3s/agent/etc/cni/net.d
cniBinDir: /var/lib/rancher/k3s/data/cni
primaryDir: /etc/cni/primary
`;
  expect(parseConfig(text, "config.yaml")).toEqual({
    engine: {},
    apiTimeoutMs: 9000,
    logLevel: "debug",
    nodeConf: {
      cniConfDir: "/var/lib/rancher/k3s/agent/etc/cni/net.d",
      shimDir: "/var/lib/rancher/k3s/data/cni",
      binDirs: ["/var/lib/rancher/k3s/data/cni"],
      primaryDir: "/etc/cni/primary",
      primaryConf: undefined,
      withoutPrimary: false,
      delegates: [],
      readinessFile: undefined,
      capabilities: {},
    },
    startupTaint: undefined,
    networkPlacement: [],
  });
});

test("the longest waits for the API server end well before the shim gives up on plexusd", async () => {
  const header = await readFile(new URL("../../../shim/shim.h", import.meta.url), "utf8");
  const silenceMs = Number(/^#define SILENCE_MS (\d+)$/m.exec(header)?.[1]);
  const { apiTimeoutMs } = parseConfig("apiTimeoutMs: 20000", "x");
  for (const waitMs of [apiTimeoutMs, statusWaitMs(apiTimeoutMs)])
    expect(silenceMs - waitMs).toBeGreaterThanOrEqual(10_000);
});

const binDirs = ["/srv/bin", "/var/lib/cni/bin", "/usr/libexec/cni"];

test.each([
  ["clusterNetwork: /etc/cni/x/10-x.conf", { primaryDir: "/etc/cni/x", primaryConf: "10-x.conf" }],
  ["clusterNetwork: default-net", { primaryConf: undefined, withoutPrimary: true }],
  ["delegates: [{name: n, type: bridge}]", { primaryConf: undefined, withoutPrimary: true }],
  ["primaryDir: /etc/cni/p", { primaryDir: "/etc/cni/p", withoutPrimary: false }],
  [
    "cniBinDir: [/var/lib/cni/bin, /usr/libexec/cni]\nbinDir: /srv/bin",
    { shimDir: "/var/lib/cni/bin", binDirs },
  ],
])("parseConfig(%j) derives the paths of the primary CNI and plugins", (text, nodeConf) => {
  expect(parseConfig(text, "x")).toMatchObject({ nodeConf });
});

test.each([
  ["clusterNetwrok: x", '1: clusterNetwrok: unknown key, got "x"'],
  ["namespaceIsolation: yes please", '1: namespaceIsolation: expected boolean, got "yes please"'],
  ["systemNamespaces: kube-system", "1: systemNamespaces: expected array"],
  ["a: 1\nsystemNamespaces:\n- ok\n- 7", "4: systemNamespaces[1]: expected string"],
  ["clusterNetwork:", "1: clusterNetwork: expected string, got null"],
  ["confDir: net.d", "1: confDir: must be an absolute path"],
  ["delegateTimeoutMs: 0", "1: delegateTimeoutMs: must be at least 1"],
  ["delegateTimeoutMs: 1.5", "1: delegateTimeoutMs: "],
  ["delegateTimeoutMs: 300000", "1: delegateTimeoutMs: must be below the kubelet's 4 minutes"],
  ["apiTimeoutMs: 30000", "1: apiTimeoutMs: must be at most 20000: the shim waits 30 s"],
  ["strictness: lenient", "1: strictness: "],
  ["confDir: /", "1: confDir: must be an absolute path, and not /"],
  ["startupTaint: plexus.dev/not ready", "1: startupTaint: must be the key of a taint"],
  ["networkPlacement: [label]", "1: networkPlacement[0]: "],
  ["clusterRoutes: keep", "1: clusterRoutes: expected array"],
  ["clusterRoutes: [10.244.0.1/16]", "1: clusterRoutes"],
  ["clusterRoutes: [0.0.0.0/0]", "1: clusterRoutes"],
  ["cniBinDir: []", "1: cniBinDir: "],
  ["cniBinDir: [bin]", "1: cniBinDir"],
  ["primaryDir: primary.d", "1: primaryDir: must be an absolute path"],
  ["auxiliaryCNIChainName: a/b", "1: auxiliaryCNIChainName: must be the name of a network"],
  ["delegates: [x]", "1: delegates[0]: "],
  ["delegates:\n- type: x\n  a: {b: [1, 1e400]}", `3: delegates[0].a.b[1]: ${outOfRange}`],
  ["delegates: [{type: x, a: .nan}]", `1: delegates[0].a: ${outOfRange}`],
  ["capabilities: {ips: 1}", "1: capabilities.ips: expected boolean"],
  ["globalNamespaces: 3", "1: globalNamespaces: expected a list"],
  ['hotPlug: ["*"]', '1: hotPlug[0]: must be the name of a namespace, got "*"'],
  ["globalNamespaces: [a b]", "1: globalNamespaces[0]: must be the name of a namespace"],
  ["globalNamespaces: a, B", "1: globalNamespaces[1]: must be the name of a namespace"],
  ["systemNamespaces: [ok, a/b]", "1: systemNamespaces[1]: must be the name of a namespace"],
  ["plexusNamespace: a.b", "1: plexusNamespace: must be the name of a namespace"],
  ["hotPlug: on", '1: hotPlug: expected true, false, or a list of namespaces, got "on"'],
  ["inspect: true", "1: inspect: expected array, got true"],
  [
    "inspect: [wires]",
    '1: inspect[0]: expected one of "interfaces"|"heal"|"addresses", got "wires"',
  ],
  [
    "clusterNetwork: a\ndelegates: [{type: x}]",
    '2: delegates: cannot be set with clusterNetwork, got [{"type":"x"}]',
  ],
  ["- a", "1: expected object"],
  ["a: 1\na: 2", "2: Map keys must be unique"],
  ["a: [", "1: "],
])("parseConfig(%j) names line, key and problem", (text, expected) => {
  const found = problemsOf(text).filter((each) => each.startsWith(`config.yaml:${expected}`));
  expect(found, problemsOf(text).join("\n")).not.toEqual([]);
});

test.each([
  ["delegates[0]", 'name: is missing, got {"type":"bridge"}', "delegates: [{type: bridge}]"],
  [
    "delegates[0]",
    'plugins[0].type: "multus" is a meta-plugin and cannot be a delegate',
    'delegates: [{cniVersion: "1.0.0", name: x, type: multus}]',
  ],
  [
    "delegates[0]",
    'plugins[0].delegate.type: "plexus" is',
    "delegates: [{name: x, type: flannel, delegate: {Type: plexus}}]",
  ],
  ["delegates[0]", "not the name of an executable", "delegates: [{name: x, type: ../sh}]"],
  ["delegates[1]", "no plugins", "delegates: [{name: a, type: a}, {name: x, plugins: []}]"],
  ["delegates[0]", "incompatible", 'delegates: [{name: x, cniVersion: "9.0.0", type: a}]'],
  ["delegates[0]", "bytes", `delegates: [{name: x, type: a, b: ${"c".repeat(131_072)}}]`],
  ["clusterNetwork", 'absolute path, got "../../etc/x"', "clusterNetwork: ../../etc/x"],
  ["clusterNetwork", "must be the name of a network, or an", "clusterNetwork: a b"],
  ["defaultNetworks[1]", 'absolute path, got "a,b"', 'defaultNetworks: [ok, "a,b"]'],
  [
    "defaultNetworks",
    "at most 31 besides the default network",
    `defaultNetworks: [${Array(32).fill("a")}]`,
  ],
])("parseConfig() refuses %s with which every ADD fails: %s", (key, problem, text) => {
  expect(problemsOf(`\n${text}`)).toEqual([expect.stringContaining(problem)]);
  expect(problemsOf(`\n${text}`)[0]).toContain(`config.yaml:2: ${key}: `);
});

test.each([
  "clusterNetwork: net_1.Example",
  "clusterNetwork: /etc/cni/net.d/",
  "defaultNetworks: [a, /srv/net.d/20-y.conf]",
  'delegates: [{cniVersion: "0.1.0", Name: a, Type: bridge}, {name: b, plugins: [{type: multus-ish}]}]',
])("parseConfig(%j) accepts what an ADD may find", (text) => {
  expect(problemsOf(text)).toEqual([]);
});

test("parseFile() takes no former key, and warns of each with line and what applies now", () => {
  const keys = Object.keys(formerKeys);
  const text = ["logLevel: warn", ...keys.map((key) => `${key}: x`)].join("\n");
  const { config, own, warnings } = parseFile(text, { source: "config.yaml" });
  expect(own).toEqual({ logLevel: "warn", plexusNamespace: "x" });
  expect(config.engine).toEqual({ plexusNamespace: "x" });
  expect(warnings).toEqual(
    keys.map(
      (key, i) => `config.yaml:${i + 2}: ${key}: remove this former key: ${formerKeys[key]}`,
    ),
  );
  const isStrict = (more: string) => parseConfig(more, "x").engine.strictness;
  for (const key of ["ignoredRequests: warn", "missingDevice: warn", "undeclaredRequests: cniArgs"])
    expect([isStrict(key), isStrict(`${key}\nstrictness: standard`)]).toEqual([
      "multus",
      "standard",
    ]);
  const { nodeConf } = parseConfig("primary: {conf: a, dir: /etc/cni/p, settleMs: 0}", "x");
  expect(nodeConf).toMatchObject({ primaryDir: "/etc/cni/p", primaryConf: undefined });
  const both = parseConfig("multusNamespace: a\nplexusNamespace: b", "x");
  expect(both.engine).toEqual({ plexusNamespace: "b" });
});

test("parseConfig() reports all problems, in the order of their lines", () => {
  const problems = problemsOf("zzz: 1\nconfDir: 5\nlogLevel: no\ndelegates: [{type: bridge}]\n");
  expect(problems.map((line) => line.split(":")[1])).toEqual(["1", "2", "3", "4"]);
});

test.each([
  [
    "clusterNetwork: *a",
    "config.yaml:1: Unresolved alias (the anchor must be set before the alias): a",
  ],
  [
    `a: &a [x, x]\n${Array.from("bcdefghi", (key, i) => `${key}: &${key} [${`*${"abcdefghi"[i]},`.repeat(9)}]`).join("\n")}`,
    "config.yaml:1: Excessive alias count indicates a resource exhaustion attack",
  ],
])("parseConfig() refuses aliases that cannot be resolved: %j", (text, message) => {
  expect(() => parseConfig(text, "config.yaml")).toThrow(
    expect.objectContaining({ name: "ConfigError", message }),
  );
});
