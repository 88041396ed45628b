import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseConfig } from "#daemon/config/parse.ts";
import type { JsonObject } from "#lib/json.ts";
import { convert, type Migration } from "./convert.ts";
import { findMultus, joinParts } from "./multus-files.ts";

/** The shapes in which operators install Multus: e2e/fixtures/multus/manifests. */
const manifest = (name: string): string =>
  readFileSync(`e2e/fixtures/multus/manifests/${name}.yaml`, "utf8");

function migrate(...texts: readonly string[]): Migration {
  const parts = texts.map((text, i) => findMultus(text, `file${i}`));
  const migration = convert(joinParts(parts));
  parseConfig(JSON.stringify(migration.configuration), "the result");
  return migration;
}

/** The result without the keys that every result has. */
function settings({ configuration }: Migration): JsonObject {
  const { strictness, plexusNamespace, ...rest } = configuration;
  expect({ strictness, plexusNamespace }).toEqual({
    strictness: "multus",
    plexusNamespace: "kube-system",
  });
  return rest;
}

/** What restores Multus, and the command that ends this. */
const restoring = ({ notes }: Migration): [string, string][] =>
  notes
    .filter(({ note }) => note.startsWith("restores a DaemonSet"))
    .map(({ source, note }) => [source, note.replace(/^.* moved, (.*) \(docs.*$/, "$1")]);

const nicClusterPolicy = [
  "NicClusterPolicy nic-cluster-policy",
  `run \`kubectl patch nicclusterpolicy nic-cluster-policy --type merge -p '{"spec":{"secondaryNetwork":{"multus":null}}}'\``,
];
const networkAddonsConfig = [
  "NetworkAddonsConfig cluster",
  `run \`kubectl patch networkaddonsconfig cluster --type merge -p '{"spec":{"multus":null,"multusDynamicNetworks":null}}'\``,
];
const helmChartConfig = expect.stringContaining("edit helmchartconfig rke2-multus`");
const rke2Release = ["Helm release rke2-multus", helmChartConfig];

const withoutConfig = manifest("nvidia")
  .replace(/^apiVersion: v1[\s\S]*?---\n/m, "")
  .replace("/tmp/multus-conf/00-multus.conf", "auto");
const harvester = manifest("rke2-defaults").replace("os: linux }", "os: linux, arch: arm64 }");
const cnao = manifest("cnao").replace(
  "  name: multus\n",
  "  name: multus\n  ownerReferences: [{kind: NetworkAddonsConfig, name: cluster}]\n",
);
const levels = { logLevel: "info" };
const hotPlug = { hotPlug: true };

test.each<[string, string, { keys: JsonObject; restores: unknown[] }]>([
  ["NVIDIA's operator", withoutConfig, { keys: {}, restores: [nicClusterPolicy] }],
  [
    "NVIDIA's operator with a config",
    manifest("nvidia"),
    {
      keys: { namespaceIsolation: true, clusterNetwork: "/etc/cni/net.d/10-calico.conflist" },
      restores: [nicClusterPolicy],
    },
  ],
  [
    "the cluster network addons operator",
    cnao,
    {
      keys: {
        ...{ ...levels, ...hotPlug },
        ...{ cniBinDir: "/var/lib/cni/bin", cniConfDir: "/etc/kubernetes/cni/net.d" },
      },
      restores: [networkAddonsConfig],
    },
  ],
  ["RKE2", manifest("rke2-defaults"), { keys: {}, restores: [rke2Release] }],
  [
    "thick Multus of RKE2",
    manifest("rke2-thick"),
    { keys: { ...levels, ...hotPlug }, restores: [rke2Release] },
  ],
  ["Harvester on arm64", harvester, { keys: {}, restores: [rke2Release] }],
  [
    "Cozystack",
    manifest("cozystack"),
    {
      keys: { ...levels, clusterNetwork: "/etc/cni/net.d/05-cilium.conflist" },
      restores: [
        [
          "Helm release multus",
          expect.stringMatching(/^leave its package .* patch daemonset cozy-multus /),
        ],
      ],
    },
  ],
])("%s: its settings, and what restores Multus", (_, text, expected) => {
  const migration = migrate(text);
  expect({ keys: settings(migration), restores: restoring(migration) }).toEqual(expected);
});

/** What Spiderpool's script writes to a node with Calico. */
const spiderpoolFile = JSON.stringify({
  ...{ cniVersion: "0.3.1", name: "multus-cni-network", type: "multus" },
  ...{ confDir: "/etc/cni/net.d/", logLevel: "debug", logFile: "/var/log/multus.log" },
  capabilities: { portMappings: true, bandwidth: true },
  ...{ namespaceIsolation: false, clusterNetwork: "k8s-pod-network", defaultNetworks: [] },
  ...{ multusNamespace: "kube-system", systemNamespaces: [] },
  kubeconfig: "/etc/cni/net.d/multus.d/multus.kubeconfig",
});

test("Spiderpool's script is not read, but the file that it writes to a node", () => {
  const text = manifest("spiderpool");
  expect(() => migrate(text)).toThrow(
    "DaemonSet kube-system/spiderpool-agent: a shell script starts Multus, so its arguments are not known. Give the file that a node has as well: /etc/cni/net.d/00-multus.conf",
  );
  const migration = migrate(text, spiderpoolFile);
  expect(settings(migration)).toEqual({
    ...{ confDir: "/etc/cni/net.d/", logLevel: "debug", namespaceIsolation: false },
    capabilities: { portMappings: true, bandwidth: true },
    ...{ clusterNetwork: "k8s-pod-network", systemNamespaces: [] },
  });
  expect(restoring(migration)).toEqual([
    ["Helm release spiderpool", "switch Multus off in its values"],
  ]);
});

const object = (kind: string, name: string, spec: JsonObject): string =>
  JSON.stringify({ kind, metadata: { name }, spec });
const ofNvidia = (secondaryNetwork: JsonObject): string =>
  object("NicClusterPolicy", "nic-cluster-policy", { secondaryNetwork });

test.each([
  [ofNvidia({ multus: {}, cniPlugins: {} }), [nicClusterPolicy]],
  [ofNvidia({ cniPlugins: {} }), undefined],
  [object("NetworkAddonsConfig", "cluster", { multus: {} }), [networkAddonsConfig]],
  [object("NetworkAddonsConfig", "cluster", { multusDynamicNetworks: {} }), [networkAddonsConfig]],
  [object("NetworkAddonsConfig", "cluster", { nodeSelector: { app: "multus" } }), undefined],
  [ofNvidia({ multus: null }), undefined],
  [object("HelmChart", "rke2-multus", {}), [["HelmChart rke2-multus", helmChartConfig]]],
  [
    object("HelmChartConfig", "rke2-multus", {}),
    [["HelmChartConfig rke2-multus", helmChartConfig]],
  ],
  [object("HelmChartConfig", "rke2-canal", {}), undefined],
  [
    object("HelmChart", "networks", { chart: "rke2-multus" }),
    [["HelmChart networks", "switch Multus off in its values"]],
  ],
  [object("toString", "x", {}), undefined],
])("an operator's object may be in another file: %s", (text, owners) => {
  const files = [manifest("upstream-thin"), text];
  if (owners === undefined) expect(() => migrate(...files)).toThrow("file1: contains no");
  else expect(restoring(migrate(...files))).toEqual(owners);
});

test("what Flux and Argo CD write to a DaemonSet names what restores it", () => {
  const marks = `
  annotations: {"argocd.argoproj.io/tracking-id": "cni:apps/DaemonSet:kube-system/kube-multus-ds"}
  labels:
    helm.toolkit.fluxcd.io/name: multus`;
  const text = manifest("upstream-thin").replace(/(kind: DaemonSet\nmetadata:)/, `$1${marks}`);
  expect(restoring(migrate(text))).toEqual([
    ["HelmRelease multus", "remove Multus from it"],
    ["Application cni", "remove Multus from it"],
  ]);
});

test("an operator's object that installs the dynamic networks controller asks for hot-plug", () => {
  const text = object("NetworkAddonsConfig", "cluster", { multusDynamicNetworks: {} });
  expect(settings(migrate(manifest("upstream-thin"), text))).toHaveProperty("hotPlug", true);
});

test("an operator's object alone does not tell what Multus uses", () => {
  expect(() => migrate(ofNvidia({ multus: {} }))).toThrow(
    /^NicClusterPolicy nic-cluster-policy: cannot tell .*Give the DaemonSet as well/,
  );
});

test("other workloads of an operator restore nothing of Multus", () => {
  const other = {
    kind: "DaemonSet",
    metadata: { ownerReferences: [{ kind: "NicClusterPolicy", name: "nic-cluster-policy" }] },
    spec: { template: { spec: { containers: [{ name: "cni-plugins", image: "plugins" }] } } },
  };
  const items = [other, { kind: "ConfigMap", data: {} }];
  const text = JSON.stringify({ kind: "List", items });
  expect(() => migrate(manifest("upstream-thin"), text)).toThrow("file1: contains no");
});

test("a ConfigMap with values of RKE2's chart is no configuration of Multus", () => {
  const [configMap = ""] = manifest("rke2-defaults").split("\n---\n");
  expect(() => migrate(configMap)).toThrow("contains no configuration of Multus");
});
