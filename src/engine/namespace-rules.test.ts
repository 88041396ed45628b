import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { EngineLab, expectError, network } from "#engine/testing/engine-lab.ts";
import { allowedNamespaces, allowedSelector } from "#npwg/isolation.ts";
import { networkStatusAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import { defaultEngineConfig, type EngineConfig } from "./config.ts";
import { configOfNamespace, policyFor } from "./namespace-rules.ts";

const rules: EngineConfig["byNamespace"] = [
  { name: "blue", namespaces: ["blue"], clusterNetwork: "blue-net" },
  {
    name: "teams",
    namespaces: ["team-*", "blue"],
    defaultNetworks: ["logs"],
    attachmentPolicy: ["bridge"],
  },
  { name: "rest", namespaces: ["*"], clusterNetwork: "rest-net", attachmentPolicy: "trusted" },
];
const config = (keys: Partial<EngineConfig>): EngineConfig => ({ ...defaultEngineConfig, ...keys });

test.each([
  ["blue", { clusterNetwork: "blue-net", defaultNetworks: ["logs"], delegates: [] }],
  ["team-1", { clusterNetwork: "rest-net", defaultNetworks: ["logs"] }],
  ["team", { clusterNetwork: "rest-net", defaultNetworks: ["all"] }],
])("of each setting, the first rule for namespace %s that has it counts", (namespace, expected) => {
  const node = config({
    byNamespace: rules,
    defaultNetworks: ["all"],
    delegates: [network("main")],
  });
  expect(configOfNamespace(node, namespace)).toMatchObject(expected);
  expect(configOfNamespace(node, undefined)).toBe(node);
});

test("a rule that has only further networks leaves the default network", () => {
  const node = config({ byNamespace: rules.slice(1, 2), delegates: [network("main")] });
  expect(configOfNamespace(node, "team-1").delegates).toEqual([network("main")]);
});

interface PolicyCase {
  readonly why: string;
  readonly keys: Partial<EngineConfig>;
  readonly namespace: string;
  readonly plugins: unknown;
}

test.each<PolicyCase>([
  { why: "anything by default", keys: {}, namespace: "default", plugins: undefined },
  { why: "a rule's list", keys: { byNamespace: rules }, namespace: "team-1", plugins: ["bridge"] },
  {
    why: "a rule that trusts",
    keys: { byNamespace: rules, attachmentPolicy: "restricted" },
    namespace: "x",
    plugins: undefined,
  },
  {
    why: "what all may, without a rule",
    keys: { byNamespace: rules.slice(0, 2), attachmentPolicy: ["vlan"] },
    namespace: "x",
    plugins: ["vlan"],
  },
  {
    why: "anything, if they are Plexus's own",
    keys: { attachmentPolicy: "restricted" },
    namespace: "kube-system",
    plugins: undefined,
  },
  {
    why: "what a rule says of Plexus's own",
    keys: { byNamespace: [{ name: "own", namespaces: ["kube-*"], attachmentPolicy: ["bridge"] }] },
    namespace: "kube-system",
    plugins: ["bridge"],
  },
])("definitions may contain $why", ({ keys, namespace, plugins }) => {
  expect(policyFor(config(keys), namespace)?.plugins).toEqual(plugins);
});

/** A pod of namespace `team-1` on a node with these keys. */
function labOf(annotation: string, keys: Partial<EngineConfig>): EngineLab {
  const lab = new EngineLab({ conf: { delegates: [network("main", "ptp")] }, config: keys });
  lab.source.addPod({
    name: "web",
    namespace: "team-1",
    annotations: { [networksAnnotation]: annotation },
  });
  return lab;
}
const web = { pod: "team-1/web" };

test("a pod gets the networks of its namespace, which its status names and its DEL detaches", async () => {
  const lab = labOf("", {
    byNamespace: [
      { name: "t", namespaces: ["team-*"], clusterNetwork: "blue-net", defaultNetworks: ["logs"] },
    ],
  });
  lab.source.addNad("kube-system/blue-net", network("blue", "bridge"));
  lab.source.addNad("kube-system/logs", network("logs", "macvlan"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map(({ conf }) => conf.name)).toEqual(["blue", "logs"]);
  const status = lab.publisher.published.get("team-1/web")?.[networkStatusAnnotation];
  expect(JSON.parse(status ?? "")[0]).toMatchObject({
    name: "kube-system/blue-net",
    default: true,
  });
  lab.plugins.calls.length = 0;
  await lab.del(web);
  expect(lab.plugins.calls.map(({ conf }) => conf.name)).toEqual(["logs", "blue"]);
});

test("a pod's own default network replaces that of its namespace [S-312]", async () => {
  const lab = labOf("", { byNamespace: rules });
  lab.source.addPod({
    name: "web",
    namespace: "team-1",
    annotations: { "v1.multus-cni.io/default-network": "mine" },
  });
  lab.source.addNad("kube-system/rest-net", network("rest", "bridge"));
  lab.source.addNad("kube-system/logs", network("logs", "bridge"));
  lab.source.addNad("kube-system/mine", network("mine", "bridge"));
  await lab.add(web);
  expect(lab.plugins.calls.map(({ conf }) => conf.name)).toEqual(["mine", "logs"]);
});

test.each<[why: string, annotations: Record<string, string>]>([
  ["its name", { [allowedNamespaces]: "x, team-1" }],
  ["the beginning of its name", { [allowedNamespaces]: "team-*" }],
  ["its labels", { [allowedSelector]: "team in (1,2)" }],
  [
    "its labels besides other names",
    { [allowedNamespaces]: "x", [allowedSelector]: "team in (1,2)" },
  ],
])("a definition permits a namespace by %s", async (_, annotations) => {
  const lab = labOf("shop/db", {});
  lab.source.labelled.set("team in (1,2)", ["team-1"]);
  lab.source.addNad("shop/db", network("db", "bridge"), annotations);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("a definition's own namespace needs no permission [S-311]", async () => {
  const lab = labOf("db", {});
  lab.source.addNad("team-1/db", network("db", "bridge"), { [allowedNamespaces]: "" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("a pod waits while the labels of its namespace cannot be read, if its name is not permitted", async () => {
  const lab = labOf("shop/db", {});
  lab.source.namespaceMatches = () => Promise.reject(new CniError("ApiUnavailable", "no answer"));
  lab.source.addNad("shop/db", network("db", "bridge"), { [allowedSelector]: "a=b" });
  expectError(await lab.add(web), 11, "no answer");
  lab.source.addNad("shop/db", network("db", "bridge"), {
    [allowedSelector]: "a=b",
    [allowedNamespaces]: "team-*",
  });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("a file of the node is not a definition's content, whatever it executes", async () => {
  const lab = labOf("disk", { attachmentPolicy: "restricted" });
  lab.source.addNad("team-1/disk");
  lab.files.write("/etc/cni/plexus/net.d/x.conflist", network("disk", "host-device"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});
