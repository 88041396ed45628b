import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseConfig } from "#daemon/config/parse.ts";
import { type JsonObject, quoteValue } from "#lib/json.ts";
import { convert, type Migration } from "./convert.ts";
import { findMultus, joinParts } from "./multus-files.ts";

const manifest = (name: string): string =>
  readFileSync(`e2e/fixtures/multus/manifests/${name}.yaml`, "utf8");

function migrate(files: Readonly<Record<string, string>>): Migration {
  const parts = Object.entries(files).map(([name, text]) => findMultus(text, name));
  const migration = convert(joinParts(parts));
  parseConfig(JSON.stringify(migration.configuration), "the result");
  return migration;
}

/** The result but for the key that makes Plexus as lenient as Multus. */
function keysOf({ configuration }: Migration): JsonObject {
  const { strictness, ...rest } = configuration;
  return rest;
}

const noted = ({ notes }: Migration): string[] =>
  notes.filter(({ source }) => !/^(Multus's|Plexus's)/.test(source)).map(({ key }) => key);

const kubeSystem = { plexusNamespace: "kube-system" };
const thickNotes = ["chrootDir", "socketDir"];

test("RKE2's chart has a second = before the directory, if its values have one", () => {
  const text = manifest("rke2-multus");
  const args = '- "--cni-bin-dir';
  const other = text.replace(args, `- "--cni-conf-dir==/host/etc/cni/net.d"\n        ${args}`);
  expect(other).toContain("--cni-conf-dir==");
  expect(keysOf(migrate({ "rke2.yaml": other }))).toEqual(keysOf(migrate({ "rke2.yaml": text })));
});

test.each<[string, JsonObject, string[]]>([
  ["upstream-thin", {}, ["all keys"]],
  ["upstream-thick", { logLevel: "info" }, thickNotes],
  [
    "rke2-multus",
    {
      clusterNetwork: "/etc/cni/net.d/10-canal.conflist",
      binDir: "/opt/multus/bin",
      readinessindicatorfile: "/run/flannel/subnet.env",
      globalNamespaces: "default,foo,bar",
      logLevel: "error",
    },
    [
      "--multus-kubeconfig-file-host",
      "--additional-bin-dir",
      "--cleanup-config-on-exit",
      "--readiness-indicator-file",
    ],
  ],
  [
    "k3s",
    {
      cniBinDir: "/var/lib/rancher/k3s/data/cni",
      cniConfDir: "/var/lib/rancher/k3s/agent/etc/cni/net.d",
    },
    ["--cni-version", "--multus-kubeconfig-file-host", "--cni-conf-dir"],
  ],
  [
    "cnao",
    {
      logLevel: "info",
      cniBinDir: "/var/lib/cni/bin",
      cniConfDir: "/etc/kubernetes/cni/net.d",
      hotPlug: true,
    },
    ["multus-dynamic-networks-controller", ...thickNotes, "cniConfigDir"],
  ],
  ["kubespray", { namespaceIsolation: true }, ["--multus-kubeconfig-file-host"]],
  [
    "openshift",
    {
      cniBinDir: "/var/lib/cni/bin",
      cniConfDir: "/etc/kubernetes/cni/net.d",
      primaryDir: "/run/multus/cni/net.d",
      logLevel: "info",
      binDir: "/var/lib/cni/bin",
      namespaceIsolation: true,
      globalNamespaces: "default,openshift-multus,openshift-sriov-network-operator,openshift-cnv",
      readinessindicatorfile: "/run/multus/cni/net.d/10-ovn-kubernetes.conf",
    },
    [
      ...["chrootDir", "binDir", "perNodeCertificate", "daemonSocketDir", "socketDir"],
      ...["multusAutoconfigDir", "cniConfigDir", "readinessindicatorfile"],
    ],
  ],
])("the manifest %s keeps its settings, and notes the rest", (name, keys, notes) => {
  const migration = migrate({ f: manifest(name) });

  expect(keysOf(migration)).toEqual({ ...kubeSystem, ...keys });
  expect(noted(migration).toSorted()).toEqual(notes.toSorted());
});

test("the controller for networks of running pods is replaced by hot-plug", () => {
  const { configuration, notes } = migrate({ f: manifest("cnao") });

  expect(configuration).toMatchObject({ hotPlug: true });
  expect(notes).toContainEqual({
    source: expect.any(String),
    key: "multus-dynamic-networks-controller",
    note: expect.stringContaining("`hotPlug: true`, which needs `plexus agent --attach`"),
  });
});

test("the controller may be in another file", () => {
  const controller = JSON.stringify({
    kind: "Deployment",
    metadata: { name: "dynamic-networks-controller" },
    spec: { template: { spec: { containers: [{ image: "multus-dynamic-networks-controller" }] } } },
  });
  const multus = manifest("upstream-thin");
  const { configuration } = migrate({ multus, controller });
  expect(configuration).toEqual({ ...migrate({ multus }).configuration, hotPlug: true });
});

test("nodes that Multus does not run on are a line with what to do", () => {
  const text = manifest("upstream-thin");
  const placed = text.replace(/^( *)containers:/m, "$1nodeSelector: {a: b}\n$&");
  const [note] = migrate({ placed }).notes.filter(({ key }) => key === "nodeSelector");
  expect(note?.note).toMatch(/^give Plexus's DaemonSets the same, .*: \{"a":"b"\}$/);
  const linux = placed.replace("a: b", "kubernetes.io/os: linux");
  expect(migrate({ linux })).toEqual(migrate({ linux: text }));
});

const isolation = "--namespace-isolation=true";

/** A DaemonSet of thin Multus with these arguments, and the ConfigMap of the manifest. */
function thin(...args: string[]): string {
  const text = manifest("upstream-thin");
  return text.replace(
    '- "--multus-conf-file=auto"',
    args.map((arg) => `- ${arg}`).join("\n        "),
  );
}

test("a template is in effect only if --multus-conf-file names it, and then arguments for generating are not", () => {
  const used = migrate({
    f: thin("--multus-conf-file=/tmp/multus-conf/70-multus.conf", isolation),
  });

  expect(keysOf(used)).toMatchObject({ capabilities: { portMappings: true } });
  expect(keysOf(used).delegates).toEqual([
    expect.objectContaining({ name: "default-cni-network" }),
  ]);
  expect(keysOf(used)).not.toHaveProperty("namespaceIsolation");
  expect(used.notes).toContainEqual({
    source: "f, DaemonSet kube-system/kube-multus-ds",
    key: "--namespace-isolation",
    note: "left out: Multus uses it only with --multus-conf-file=auto",
  });

  const unused = migrate({ f: thin("--multus-conf-file=auto", isolation) });
  expect(keysOf(unused)).toEqual({ ...kubeSystem, namespaceIsolation: true });
  expect(unused.notes).toContainEqual({
    source: "f, data.cni-conf.json",
    key: "all keys",
    note: "left out: Multus does not use this entry",
  });
});

test.each([
  [["--namespace-isolation"], { namespaceIsolation: true }],
  [["--namespace-isolation=1"], { namespaceIsolation: true }],
  [["--namespace-isolation=false"], { namespaceIsolation: false }],
  [["--global-namespaces", "default,a"], { globalNamespaces: "default,a" }],
  [["--multus-autoconfig-dir=/host/run/cni"], { primaryDir: "/run/cni" }],
  [["--multus-log-level=DEBUG"], { logLevel: "debug" }],
])("the arguments %j of thin Multus are converted", (args, keys) => {
  const containers = [{ command: ["/thin_entrypoint"], args }];
  const text = JSON.stringify({ kind: "DaemonSet", spec: { template: { spec: { containers } } } });

  expect(keysOf(migrate({ f: text }))).toEqual({ ...kubeSystem, ...keys });
});

test("a renamed primary configuration is a line with what to do", () => {
  const { notes } = migrate({ f: thin("--rename-conf-file=true") });

  expect(notes).toContainEqual(
    expect.objectContaining({
      note: expect.stringContaining("rename it back before Plexus starts"),
    }),
  );
});

const onlyConfigMap = (name: string): string => manifest(name).split("\n---\n")[0] ?? "";
const onlyDaemonSet = (name: string): string => manifest(name).split("\n---\n")[1] ?? "";
const node = "/etc/cni/net.d/00-multus.conf or 00-multus.conflist";
const liveMigration = manifest("openshift").replace(
  'MULTUS_DAEMON_OPT=""',
  'MULTUS_DAEMON_OPT="--config /etc/cni/net.d/multus.d/daemon-config-lm-ovn.json"',
);
const userFile = manifest("upstream-thick").replace('"auto"', '"/tmp/00-multus.conf"');

test.each([
  ["a shell script makes the configuration", manifest("rke2-multus-3"), ["a shell script", node]],
  [
    "a flag of another version",
    thin("--cni-namespace-isolation=true"),
    ["--cni-namespace-isolation is not in Multus 4.3", node],
  ],
  [
    "a variable",
    thin("--global-namespaces=$(NS)"),
    ["--global-namespaces depends on the container's environment: $(NS)", node],
  ],
  [
    "a template without its DaemonSet",
    onlyConfigMap("upstream-thin"),
    [
      "data.cni-conf.json: cannot tell whether Multus uses this",
      "Give the DaemonSet as well",
      node,
    ],
  ],
  [
    "a user's file that is not given",
    thin("--multus-conf-file=/conf/70-multus.conf"),
    ["Multus uses /conf/70-multus.conf", "/etc/cni/net.d/70-multus.conf"],
  ],
  [
    "a daemon without its ConfigMap",
    onlyDaemonSet("upstream-thick"),
    [
      "the entry daemon-config.json of ConfigMap multus-daemon-config",
      "Give this ConfigMap as well",
    ],
  ],
  [
    "a script that selects the daemon's file",
    liveMigration,
    ["a shell script selects its file", "daemon-config.json"],
  ],
  [
    "a daemon with a user's file",
    userFile,
    ["Multus uses /tmp/00-multus.conf", "a node's /etc/cni/net.d/00-multus.conf"],
  ],
])("what cannot be decided is refused: %s", (_, text, parts) => {
  for (const part of parts) expect(() => migrate({ f: text })).toThrow(part);
});

const nodeFile = JSON.stringify({
  ...{ type: "multus", name: "multus-cni-network", namespaceIsolation: true },
  delegates: [{ name: "cbr0", type: "flannel" }],
});

test.each([
  ["a shell script", manifest("rke2-multus-3")],
  ["another version's flag", thin("--cni-namespace-isolation=true")],
  ["a variable", thin("--global-namespaces=$(NS)")],
])("with a node's file, a DaemonSet with %s is converted", (_, text) => {
  const migration = migrate({ manifest: text, "00-multus.conf": nodeFile });

  expect(keysOf(migration)).toEqual({ ...kubeSystem, namespaceIsolation: true });
});

test("a daemon's user file is read from the node, or from the ConfigMap that its container mounts", () => {
  const own = nodeFile.replace("multus-cni-network", "mine");
  const mounted = userFile
    .replace("daemon-config.json: |", `00-multus.conf: '${own}'\n  daemon-config.json: |`)
    .replace("/tmp/00-multus.conf", "/etc/cni/net.d/multus.d/00-multus.conf");

  for (const files of [{ f: userFile, "00-multus.conf": own }, { f: mounted }]) {
    expect(keysOf(migrate(files)).delegates).toEqual([{ name: "cbr0", type: "flannel" }]);
  }
});

test("containers of other programs are ignored", () => {
  const other = (container: object): string =>
    quoteValue(
      { kind: "DaemonSet", spec: { template: { spec: { containers: [container] } } } },
      999,
    );

  for (const container of [
    { image: "ghcr.io/k8snetworkplumbingwg/whereabouts", command: ["/entrypoint.sh"] },
    { image: "ghcr.io/k8snetworkplumbingwg/multus-cni", command: ["sleep", "infinity"] },
  ]) {
    expect(() => migrate({ f: other(container) })).toThrow("contains no configuration of Multus");
  }
});
