import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { run } from "#cli/testing/run.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import type { JsonObject } from "#lib/json.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { convert } from "./convert.ts";
import { findMultus } from "./multus-files.ts";

async function migrate(files: Record<string, string>, ...flags: string[]) {
  const dir = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  const paths = Object.keys(files).map((name) => join(dir, name));
  const { code, out, err } = await run("migrate", ...flags, ...paths);
  const inDir = (text: string): string => text.replaceAll(`${dir}/`, "");
  return { code, out: inDir(out), err: inDir(err) };
}

/** The keys of every result: Plexus is then no stricter than Multus. */
const likeMultus = { plexusNamespace: "kube-system", strictness: "multus" };

const convertOne = (keys: JsonObject) =>
  convert(findMultus(JSON.stringify({ type: "multus", ...keys }), "f.conf"));

/** What the daemon of Multus 4.3 writes. */
const generatedBy = (clusterNetwork: string): JsonObject => ({
  ...{ name: "multus-cni-network", type: "multus-shim", cniVersion: "0.3.1" },
  clusterNetwork,
});

/** What the thin entry point of Multus 4.3 writes. */
const thinConf = {
  cniVersion: "0.3.1",
  name: "multus-cni-network",
  type: "multus",
  logToStderr: true,
  capabilities: { portMappings: true },
  namespaceIsolation: true,
  kubeconfig: "/etc/cni/net.d/multus.d/multus.kubeconfig",
  delegates: [{ cniVersion: "0.3.1", name: "cbr0", plugins: [{ type: "flannel" }] }],
};

/** The ConfigMap of Multus's own thick manifest. */
const thickManifest = `
apiVersion: v1
kind: ConfigMap
metadata: { name: multus-daemon-config, namespace: kube-system }
data:
  daemon-config.json: |
    {
      "chrootDir": "/hostroot",
      "cniVersion": "0.3.1",
      "logLevel": "verbose",
      "logToStderr": true,
      "cniConfigDir": "/host/etc/cni/net.d",
      "multusAutoconfigDir": "/host/etc/cni/net.d",
      "multusConfigFile": "auto",
      "socketDir": "/host/run/multus/"
    }
---
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: kube-multus-ds }
`;

test("a generated thin configuration is converted without its copy of the primary CNI's file", async () => {
  const { code, out } = await migrate({ "00-multus.conf": JSON.stringify(thinConf) });

  expect(code).toBe(0);
  expect(parse(out)).toEqual({
    ...{ capabilities: { portMappings: true }, namespaceIsolation: true },
    ...likeMultus,
  });
  expect(out).toContain(
    '# delegates (00-multus.conf): left out: it is the copy of the primary CNI\'s configuration "cbr0"',
  );
  expect(out).toContain("# kubeconfig (00-multus.conf): plexusd uses its service account.");
});

test("the thick daemon's ConfigMap is converted from its manifest", async () => {
  const { code, out } = await migrate({ "multus.yaml": thickManifest });

  expect(code).toBe(0);
  expect(parse(out)).toEqual({ logLevel: "info", ...likeMultus });
  expect(out).toContain("# chrootDir (multus.yaml, data.daemon-config.json): not needed");
});

test("the configuration is as lenient as Multus, and a comment tells when to change that", async () => {
  const { out } = await migrate({ "f.conf": '{"type":"multus"}' });

  expect(parseConfig(out, "config.yaml").engine).toMatchObject({ strictness: "multus" });
  expect(out).toMatch(/# strictness \(Plexus's default is standard\): .*remove this key when/);
});

test.each(["yaml", "configmap"])("a line break in a key sets nothing: %s", async (format) => {
  const conf = { type: "multus", "x\nhotPlug: true\n#": 1 };
  const { out } = await migrate({ "f.conf": JSON.stringify(conf) }, "-o", format);

  const file = parse(out);
  expect(format === "yaml" ? file : parse(file.data["config.yaml"])).toEqual(likeMultus);
  expect(out).toContain("# x hotPlug: true # (f.conf): ");
});

test("the daemon's file overrides the CNI configuration, whatever their order", async () => {
  const daemon = { socketDir: "/run/multus", multusNamespace: "net", confDir: "/host/etc/b" };
  const conf = {
    type: "multus-shim",
    multusNamespace: "old",
    clusterNetwork: "/host/etc/cni/net.d/x.conf",
  };
  const { out } = await migrate(
    { "daemon-config.json": JSON.stringify(daemon), "00-multus.conf": JSON.stringify(conf) },
    "-o",
    "json",
  );
  const { configuration, notes } = JSON.parse(out);

  expect(configuration).toEqual({
    ...likeMultus,
    plexusNamespace: "net",
    confDir: "/etc/b",
  });
  expect(notes).toContainEqual({
    source: "daemon-config.json",
    key: "multusNamespace",
    note: 'overrides "old" in 00-multus.conf',
  });
});

test("-o configmap prints a ConfigMap with a configuration that plexusd accepts", async () => {
  const { out } = await migrate({ "multus.yaml": thickManifest }, "--output", "configmap");
  const { kind, metadata, data } = parse(out);

  expect(kind).toBe("ConfigMap");
  expect(metadata).toEqual({ name: "plexus-config", namespace: "kube-system" });
  expect(parseConfig(data["config.yaml"], "config.yaml").logLevel).toBe("info");
});

test("-o values prints the value of the Helm chart", async () => {
  const { out } = await migrate({ "multus.yaml": thickManifest }, "-o", "values");

  expect(parse(out)).toEqual({ config: { logLevel: "info", ...likeMultus } });
});

test.each([
  [
    "a CNI 1.0.0 list",
    { type: "", plugins: [{ type: "multus", confDir: "/a" }] },
    { confDir: "/a" },
  ],
  [
    "multusMasterCNI",
    { multusMasterCNI: "10-a.conflist" },
    { clusterNetwork: "/etc/cni/net.d/10-a.conflist" },
  ],
  ["multusAutoconfigDir", { multusAutoconfigDir: "/host/etc/p" }, { primaryDir: "/etc/p" }],
  ["default multusAutoconfigDir", { multusAutoconfigDir: "/host/etc/cni/net.d" }, {}],
  ["cniConfigDir", { cniConfigDir: "/host/etc/other" }, { cniConfDir: "/etc/other" }],
  ["binDir", { binDir: "/opt/more" }, { binDir: "/opt/more" }],
  ["logLevel panic", { logLevel: "panic" }, { logLevel: "error" }],
  ["globalNamespaces", { globalNamespaces: "a, b" }, { globalNamespaces: "a, b" }],
  [
    "hand-made delegates",
    { name: "mine", delegates: [{ type: "a" }] },
    { delegates: [{ type: "a" }] },
  ],
  [
    "delegates beside clusterNetwork",
    { delegates: [{ type: "a" }], clusterNetwork: "n" },
    { clusterNetwork: "n" },
  ],
  ["an empty list of delegates", { delegates: [], clusterNetwork: "n" }, { clusterNetwork: "n" }],
  [
    "defaultNetworks with clusterNetwork",
    { clusterNetwork: "n", defaultNetworks: ["m"] },
    { clusterNetwork: "n", defaultNetworks: ["m"] },
  ],
  [
    "defaultNetworks with delegates",
    { name: "mine", delegates: [{ type: "a" }], defaultNetworks: ["m"] },
    { delegates: [{ type: "a" }] },
  ],
  ["null as absent", { confDir: null }, {}],
  [
    "auxiliaryCNIChainName",
    { auxiliaryCNIChainName: "vendor-cni-chain" },
    { auxiliaryCNIChainName: "vendor-cni-chain" },
  ],
  [
    "a name as clusterNetwork",
    { type: "multus-shim", clusterNetwork: "n" },
    { clusterNetwork: "n" },
  ],
  ["a generated clusterNetwork", generatedBy("/host/etc/cni/net.d/10-flannel.conflist"), {}],
  [
    "a generated clusterNetwork in a separate directory",
    generatedBy("/host/run/multus/cni/net.d/10-ovn.conf"),
    { primaryDir: "/run/multus/cni/net.d" },
  ],
  [
    "a copied delegate under the primary CNI's own name",
    { name: "cbr0", delegates: [{ name: "cbr0", plugins: [] }] },
    {},
  ],
  [
    "both of the primary's keys",
    { multusMasterCNI: "a.conf", multusAutoconfigDir: "/p" },
    { clusterNetwork: "/p/a.conf", primaryDir: "/p" },
  ],
])("convert() translates %s", (_, keys, configuration) => {
  expect(convertOne(keys as JsonObject).configuration).toEqual({ ...likeMultus, ...configuration });
});

test.each([
  [{ noSuchKey: 1 }, "Multus 4.3 does not read this key either"],
  [{ toString: 1 }, "Multus 4.3 does not read this key either"],
  [{ logLevel: "loud" }, '"loud" is not a level of Multus'],
  [{ multusConfigFile: "/etc/multus.conf" }, "the keys of that file are in this one"],
  [{ cniConf: "/host/etc/cni/multus/net.d" }, "Multus 4.3 does not read it"],
  [{ logToStderr: false }, "read it with kubectl logs"],
  [generatedBy("/host/etc/cni/net.d/10-a.conf"), "Plexus finds the primary CNI's file"],
  [{ metricsPort: 9091 }, "127.0.0.1:19500"],
])("convert() lists %j with advice", (keys, note) => {
  const { configuration, notes } = convertOne(keys as unknown as JsonObject);

  expect(configuration).toEqual(likeMultus);
  const own = notes.filter(({ source }) => source === "f.conf");
  expect(own).toEqual([expect.objectContaining({ note: expect.stringContaining(note) })]);
});

test.each([
  ["invalid JSON or YAML", "{", /f: /],
  ["JSON with a comment, as Multus", '{"type": "multus", /* c */ "confDir": "/a"}', /f: .*line 1/],
  ["JSON with a line's comment", '{"type": "multus",\n// c\n"confDir": "/a"}', /f: .*line 2/],
  ["another CNI's conf", '{"type":"flannel"}', /f: contains no configuration of Multus/],
  ["an empty file", "", /f: contains no configuration of Multus/],
  ["a ConfigMap's entry that is broken", 'kind: ConfigMap\ndata: {a: "{"}', /f, data.a: .*line 1/],
  [
    "a ConfigMap's entry that is not text",
    "kind: ConfigMap\ndata: {a: 1}",
    /data.a: must be text: 1/,
  ],
  ["an alias without an anchor", "a: *b", /f: /],
  ["a file that is too long", " ".repeat(2 << 20), /longer than 1048576 characters/],
])("findMultus() rejects %s", (_, text, message) => {
  expect(() => findMultus(text, "f")).toThrow(message);
});

test("a value that Plexus cannot use fails with its key and the problem", async () => {
  const { code, err } = await migrate({ "f.conf": '{"type":"multus","confDir":"relative"}' });

  expect(code).toBe(1);
  expect(err).toContain("confDir: must be an absolute path");
});

test("migrate prints the usage without a file or with an unknown output format", async () => {
  const without = await migrate({});
  const wrong = await migrate({ "f.conf": '{"type":"multus"}' }, "-o", "toml");

  expect([without.code, wrong.code]).toEqual([2, 2]);
  expect(without.err).toMatch(/^usage: .*\nplexusctl migrate: takes one or more arguments$/);
  expect(wrong.err).toMatch(/: --output must be yaml, values, configmap or json: "toml"$/);
});

test("a list that Multus generated for CNI 1.0.0 is converted as the configuration of one plugin", async () => {
  const { cniVersion, name, ...plugin } = thinConf;
  const list = JSON.stringify({ cniVersion: "1.0.0", name, plugins: [plugin] });
  const { out } = await migrate({ "00-multus.conflist": list });

  expect(parse(out)).toEqual({
    ...{ capabilities: { portMappings: true }, namespaceIsolation: true },
    ...likeMultus,
  });
});

test("the plugins beside Multus, and the keys of its list, are noted wherever the list is", () => {
  const list = JSON.stringify({
    ...{ cniVersion: "1.0.0", name: "n", disableCheck: true },
    plugins: [{ type: "tuning" }, { type: "multus" }, { type: "portmap", capabilities: {} }],
  });
  const args = ["--multus-conf-file=/tmp/multus-conf/a"];
  const volumes = [{ name: "cfg", configMap: { name: "c" } }];
  const volumeMounts = [{ name: "cfg", mountPath: "/tmp/multus-conf" }];
  const containers = [{ command: ["/thin_entrypoint"], args, volumeMounts }];
  const spec = { template: { spec: { containers, volumes } } };
  const manifest = { kind: "ConfigMap", metadata: { name: "c" }, data: { a: list } };
  const items = [manifest, { kind: "DaemonSet", spec }];

  for (const text of [list, JSON.stringify({ kind: "List", items })]) {
    const { notes } = convert(findMultus(text, "f"));
    const found = notes.filter(({ key }) => /^(plugins|disable)/.test(key));
    expect(found.map(({ key, note }) => [key, note])).toEqual([
      ["disableCheck", expect.stringContaining("if you need true, set it there")],
      ["plugins[0]", expect.stringContaining('pods lose the plugin "tuning". Add it to')],
      ["plugins[2]", expect.stringContaining('pods lose the plugin "portmap". Add it to')],
    ]);
  }
});

test("keys of Multus are read in any case, as by Multus, and the last of several counts", () => {
  const { configuration, notes } = convertOne({
    ...{ NamespaceIsolation: true, clusternetwork: "other", ClusterNetwork: "net" },
    DELEGATES: [{ name: "unused", type: "bridge" }],
  });
  const keys = { namespaceIsolation: true, clusterNetwork: "net" };
  expect(configuration).toEqual({ ...likeMultus, ...keys });
  expect(notes).toContainEqual(expect.objectContaining({ key: "delegates" }));
});
