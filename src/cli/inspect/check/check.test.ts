import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { linesOf } from "#cli/testing/run.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/** Checks a text on stdin. */
async function check(text: string, ...flags: string[]) {
  const { code, out, err } = await linesOf(["check", ...flags, "-"], text);
  return { code, out, err };
}

/** Writes files by name. @returns their directory */
async function directoryOf(files: Readonly<Record<string, string>>): Promise<string> {
  const dir = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, name)), { recursive: true });
    await writeFile(join(dir, name), text);
  }
  return dir;
}

const fine = { code: 0, out: [], err: [] };

/** A definition whose configuration is written as given. */
function nad(config: string, metadata = "{name: lan}"): string {
  return `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: ${metadata}
spec:
  config: ${config}
`;
}

const lan = nad(`'{"cniVersion": "1.0.0", "type": "macvlan", "capabilities": {"ips": true}}'`);

/** A pod template with annotations, as it is indented below a key. */
function pod(annotation: string, key = "k8s.v1.cni.cncf.io/networks"): string {
  return `${lan}---
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    ${key}: ${annotation}
`;
}

/** Of a pod's networks annotation. */
const at = (line: number) => `-:${line}: metadata.annotations.k8s.v1.cni.cncf.io/networks: `;
const conf = (line: number) => `-:${line}: spec.config: `;
const block = (...lines: string[]) => `|-\n${lines.map((each) => `      ${each}`).join("\n")}`;

test.each<[string, string, string | RegExp]>([
  ["YAML", "a: 1\n---\nb: [\n", /^-:4: Flow sequence /],
  [
    "an alias without anchor",
    "a: *b\n",
    "-:1: Unresolved alias (the anchor must be set before the alias): b",
  ],
  ["a key twice", "kind: Pod\nkind: Pod\n", "-:2: Map keys must be unique"],
  [
    "a name",
    nad("'{}'", "{name: Lan}"),
    /^-:3: metadata\.name: must be a DNS-1123 subdomain.*"Lan"$/,
  ],
  [
    "another version of the kind",
    lan.replace("io/v1", "io/v2"),
    /^-:1: apiVersion: must be "k8s\.cni/,
  ],
  [
    "an annotation that is no text",
    lan.replace("{name: lan}", "\n  name: lan\n  annotations:\n    vendor.example/v1: 7"),
    "-:6: metadata.annotations.vendor.example/v1: must be a string, got 7",
  ],
  ["an unknown key of the spec", `${lan}  Config: x\n`, "-:6: spec.Config: unknown key"],
  [
    "a configuration that is no text",
    nad("{type: ptp}"),
    /^-:5: spec\.config: must be a string, got /,
  ],
  [
    "the JSON in a block",
    nad(block("{", `  "type": "ptp",`, "}")),
    /^-:8: spec\.config: .*: not valid JSON: unexpected "}"/,
  ],
  [
    "the JSON in quotes",
    nad(`'{\n    "type": "ptp",\n  }'`),
    /^-:7: spec\.config: .*: not valid JSON/,
  ],
  [
    "the JSON with escapes",
    nad(String.raw`"{\n\"type\": 1"`),
    /^-:5: spec\.config: .*: not valid JSON/,
  ],
  [
    "a plugin of a list",
    nad(block("{", `  "plugins": [`, `    {"type": "ptp"},`, `    {"typ": "tuning"}`, "  ]", "}")),
    `${conf(9)}plugins[1].type: is missing`,
  ],
  [
    "a single plugin",
    nad(block("{", `  "type": "ptp",`, `  "dns": {"nameservers": "10.0.0.1"}`, "}")),
    `${conf(8)}plugins[0].dns.nameservers: must be an array, got "10.0.0.1"`,
  ],
  [
    "a network's name",
    nad(`'{"type": "ptp", "name": "a b"}'`),
    /^-:5: spec\.config: name: invalid char/,
  ],
  [
    "a version",
    nad(`'{"type": "ptp", "cniVersion": "9.0.0"}'`),
    /^-:5: spec\.config: .* CNI versions$/,
  ],
  ["a meta-plugin", nad(`'{"type": "multus"}'`), /^-:5: spec\.config: .*"multus" is a meta-plugin/],
  [
    "a long configuration",
    nad(`'{"type": "${"x".repeat(140_000)}"}'`),
    /^-:5: spec\.config: .*limit of 131072$/,
  ],
  [
    "an annotation that is no text",
    pod("[{name: lan}]"),
    `${at(12)}must be a string, got [{"name":"lan"}]`,
  ],
  [
    "the JSON of an annotation",
    pod(block("[", `  {"name": "lan"`, "]")),
    /^-:15: .*unexpected "\]"/,
  ],
  [
    "a key of an element",
    pod(block("[", `  {"name": "lan"},`, `  {"name": "lan",`, `   "mac": "zz"}`, "]")),
    /^-:16: .*: element 2, key "mac": must be a 6-byte.* got "zz"$/,
  ],
  ["an item of names", pod("lan@eth0@a"), `${at(12)}element 1: more than one "@" in "lan@eth0@a"`],
  [
    "the default network's interface",
    pod("lan@eth0"),
    /^-:12: .*interface eth0 is requested by .* default\/lan$/,
  ],
  ["an interface twice", pod("lan@a,lan@a"), /^-:12: .*: interface a is requested by network/],
  [
    "a capability",
    pod(`'[{"name": "lan", "mac": "02:00:00:00:00:01"}]'`),
    /^-:12: .* capability "mac"/,
  ],
  [
    "the default-network annotation",
    pod("a,b", "v1.multus-cni.io/default-network"),
    /^-:12: metadata\.annotations\.v1\.multus-cni\.io\/default-network: must name exactly one/,
  ],
  [
    "the ranges of the cluster",
    pod("all", "plexus.dev/cluster-routes"),
    /^-:12: metadata\.annotations\.plexus\.dev\/cluster-routes: .*must be none, or at most/,
  ],
])("check names line and key of what is wrong with %s", async (_, text, problem) => {
  const { code, out } = await check(text);
  expect({ code, out }).toEqual({
    code: 1,
    out: [typeof problem === "string" ? problem : expect.stringMatching(problem)],
  });
});

const pods = `apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {k8s.v1.cni.cncf.io/networks: lan}}
`;
const deployment = (annotations: string, more = "") => `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  template:
    metadata: {annotations: {${annotations}}}
    spec: {${more}}
`;
const networks = "k8s.v1.cni.cncf.io/networks";

test.each<[string, string]>([
  ["a definition and a pod", `${lan}---\n${pods}`],
  [
    "a list of them",
    JSON.stringify({ kind: "List", items: [JSON.parse(nadJson()), { kind: "Service" }] }),
  ],
  ["other objects", `kind: ConfigMap\ndata: {a: '{{ .x }}'}\n---\n- 1\n---\n${lan}`],
  ["a pod without requests", "kind: Pod\nmetadata: {generateName: a-}\n"],
  ["a configuration that a file of the node has", nad("''")],
  [
    "a definition that needs a device",
    `${nad(`'{"type": "sriov"}'`, "{name: vf, annotations: {k8s.v1.cni.cncf.io/resourceName: a/b}}")}---\n${deployment(`${networks}: vf`)}`,
  ],
  ["a pod on the host's network", deployment(`${networks}: "@"`, "hostNetwork: true")],
  // Of Go's parser, these are the same as indented.
  [
    "lines in quotes without indentation",
    nad(`'{\n"type": "ptp",\n"name": "it''s"\n}'`).replace("it''s", "its"),
  ],
  ["escaped lines in quotes without indentation", nad('"{ \\"type\\":\n\\"ptp\\" }"')],
])("check is silent about %s", async (_, text) => {
  expect(await check(text)).toEqual(fine);
});

function nadJson(): string {
  return JSON.stringify({
    ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
    ...{ metadata: { name: "lan" }, spec: { config: '{"type": "ptp"}' } },
  });
}

test.each([
  ["Deployment", "spec", "template"],
  ["Job", "spec", "template"],
  ["VirtualMachine", "spec", "template"],
  ["CronJob", "spec", "jobTemplate", "spec", "template"],
  ["PodTemplate", "template"],
])("check plans the pods of a %s", async (kind, ...keys) => {
  const metadata = { annotations: { [networks]: "a@b@c" } };
  const template = keys.reduceRight<object>((value, key) => ({ [key]: value }), { metadata });
  const { code, out } = await check(
    JSON.stringify({ kind, metadata: { name: "web" }, ...template }),
  );
  const path = [...keys, "metadata.annotations", networks].join(".");
  expect({ code, out }).toEqual({
    code: 1,
    out: [`-:1: ${path}: element 1: more than one "@" in "a@b@c"`],
  });
});

test("check says when there is nothing to check", async () => {
  const err = ["there is no definition and no workload to check"];
  expect(await check("kind: ConfigMap\ndata: {}\n")).toEqual({ ...fine, err });
});

test.each([
  ["", 3, "a: 1\n---\n{{- if .x }}\nb: 2\n{{- end }}\n"],
  ["metadata.name: ", 3, nad("'{}'", "{name: {{ .Values.name }}}")],
  [
    "metadata.annotations.vendor.example/of: ",
    6,
    nad('\'{"type": "ptp"}\'', "\n  name: lan\n  annotations:\n    vendor.example/of: {{ .Of }}"),
  ],
])("check only warns of what only a template's renderer knows: %s", async (key, line, text) => {
  const warned = `-:${line}: warning: ${key}is a template: check what it renders`;
  expect(await check(text)).toMatchObject({ code: 0, out: [expect.stringContaining(warned)] });
});

test("check finds problems beside templates", async () => {
  const text = `${pod("a@b@c")}    vault: "{{- with secret }}"\n`;
  expect((await check(text)).out).toEqual([`${at(12)}element 1: more than one "@" in "a@b@c"`]);
});

test("check reads merged keys, as kubectl does, and an empty namespace as none", async () => {
  const merged = `metadata: {name: web, namespace: "", annotations: {<<: {${networks}: "a@b@c"}}}`;
  expect((await check(`kind: Pod\n${merged}\n`)).out).toEqual([
    expect.stringMatching(/^-:2: .*more than one "@"/),
  ]);
  expect(
    await check(`${nad(`'{"type": "ptp"}'`, "{name: lan, namespace: }")}---\n${pods}`),
  ).toEqual(fine);
});

test("check warns of an annotation of a workload that its pods do not get", async () => {
  const text = deployment("").replace("namespace: default", `annotations: {${networks}: lan}`);
  expect(await check(text)).toMatchObject({
    code: 0,
    out: [expect.stringMatching(/^-:3: warning: .*networks: has no effect: pods get the/)],
  });
});

test("check reads each text once, however many problems it has", async () => {
  const wrong = Array.from({ length: 2000 }, () => 7);
  const config = JSON.stringify({ type: "ptp", dns: { nameservers: wrong } });
  expect((await check(nad(`'${config}'`))).out.length).toBeGreaterThan(0);
});

test("check uses a file's definition before the cluster's", async () => {
  const item = JSON.parse(nadJson());
  const dir = await directoryOf({
    "cluster.json": JSON.stringify({ kind: "NetworkAttachmentDefinitionList", items: [item] }),
    "web.yaml": `${lan}---\n${deployment(`${networks}: '[{"name":"lan","ips":["10.0.0.1"]}]'`)}`,
  });
  const files = ["--definitions", join(dir, "cluster.json"), join(dir, "web.yaml")];
  expect(await linesOf(["check", ...files])).toMatchObject({ code: 0, out: [] });
});

test("check warns of what has no effect, or what only the cluster knows", async () => {
  const config = `'{"type": "ptp", "type": "macvlan"}'`;
  const annotation = `'[{"name": "lan", "mak": 1}, {"name": "lam"}]'`;
  const { code, out } = await check(`${nad(config)}---\n${pod(annotation).slice(lan.length + 4)}`);
  expect({ code, out }).toEqual({
    code: 0,
    out: [
      '-:5: warning: spec.config: "type" occurs twice: only the last value counts',
      expect.stringMatching(/^-:12: warning: .*key "mak": unknown key, ignored/),
      expect.stringMatching(/^-:12: warning: .*there is no .* default\/lam, .*did you mean lan\?$/),
    ],
  });
});

test("check names the problem of a document although others of the file have braces", async () => {
  const alerts = "kind: ConfigMap\ndata: {a: '{{ $labels }}'}\n";
  const { out } = await check(`${alerts}---\n${nad("{}")}---\n${alerts}`);
  expect(out).toEqual(["-:8: spec.config: must be a string, got {}"]);
});

test("check --definitions uses the cluster's definitions, and does not check them", async () => {
  const item = { ...JSON.parse(nadJson()), metadata: { name: "db", namespace: "shop", uid: "1" } };
  const broken = { ...item, metadata: { ...item.metadata, name: "no" }, spec: { config: "{" } };
  const dir = await directoryOf({
    "cluster.json": JSON.stringify({ kind: "List", items: [item, broken] }),
    "web.yaml": deployment(`${networks}: "shop/db,shop/dv"`),
  });
  const definitions = join(dir, "cluster.json");
  const web = join(dir, "web.yaml");
  const { code, out } = await linesOf(["check", "--definitions", definitions, web]);
  const key = `spec.template.metadata.annotations.${networks}`;
  const problem = "there is no NetworkAttachmentDefinition shop/dv, which the pod asks for";
  expect({ code, out }).toEqual({ code: 1, out: [`${web}:6: ${key}: ${problem}`] });
});

test("check --config plans by plexusd's configuration", async () => {
  const dir = await directoryOf({
    "config.yaml": "namespaceIsolation: true\nclusterNetwork: /etc/cni/net.d/10-x.conflist\n",
    "broken.yaml": "namespaceIsolatio: true\n",
  });
  const text = `${nad("'{}'", "{name: lan, namespace: shop}").replace("{}", '{"type": "ptp"}')}---\n${deployment(`${networks}: shop/lan`)}`;
  const { code, out } = await check(text, "--config", join(dir, "config.yaml"));
  expect({ code, out }).toEqual({
    code: 1,
    out: [expect.stringMatching(/namespace isolation: a pod of namespace "default" may not use/)],
  });
  const taken = await check(pod("lan@eth0"), "--config", join(dir, "config.yaml"));
  expect(taken.out).toEqual([expect.stringContaining("interface eth0 is requested by network")]);
  const unusable = await check(text, "--config", join(dir, "broken.yaml"));
  expect(unusable).toMatchObject({
    code: 1,
    err: [expect.stringMatching(/broken\.yaml:1: namespaceIsolatio: unknown key/)],
  });
});

test("check knows the policy of definitions and who may use them, but no labels of namespaces", async () => {
  const dir = await directoryOf({ "config.yaml": "attachmentPolicy: restricted\n" });
  const config = nad(block("{", `  "type": "host-device",`, `  "device": "eth1"`, "}"));
  const { code, out } = await check(config, "--config", join(dir, "config.yaml"));
  expect({ code, out }).toEqual({
    code: 1,
    out: [
      expect.stringMatching(/^-:\d+: spec\.config: .*: plugins\[0\]\.type: "host-device" is not/),
    ],
  });
  const uses = (annotation: string) =>
    `${nad(`'{"type": "ptp"}'`, `{name: lan, namespace: shop, annotations: {${annotation}}}`)}---\n${deployment(`${networks}: shop/lan`)}`;
  expect(await check(uses("plexus.dev/allowed-namespaces-selector: team=a"))).toEqual(fine);
  const { out: refused } = await check(uses("plexus.dev/allowed-namespaces: other"));
  expect(refused).toEqual([expect.stringContaining('a pod of namespace "default" may not use')]);
});

test("check --namespace is the namespace of objects that name none", async () => {
  const text = `${nad(`'{"type": "ptp"}'`, "{name: lan, namespace: shop}")}---\n${pods}`;
  expect(await check(text, "-n", "shop")).toEqual(fine);
  expect((await check(text)).out).toEqual([
    expect.stringMatching(/warning: .*default\/lan, .*did you mean shop\/lan\?$/),
  ]);
});

test("check reads the files below a directory that have something to check, by name", async () => {
  const bad = nad("'{'");
  const dir = await directoryOf({
    ...{ "b.yaml": bad, "a/c.yml": bad, "a/d.json": bad, "e.txt": bad, ".git/f.yaml": bad },
    ...{ "node_modules/x/g.yaml": bad, "values.yaml": "a: [" },
  });
  await symlink(join(dir, "none"), join(dir, "link.yaml"));
  const { code, out } = await linesOf(["check", dir]);
  const files = out.map((each) => each.slice(dir.length + 1).split(":")[0]);
  expect({ code, files }).toEqual({ code: 1, files: ["a/c.yml", "a/d.json", "b.yaml"] });
});

test("check takes the definition of the pod's own file, where files repeat a name", async () => {
  const without = nad(`'{"type": "ptp"}'`);
  const request = deployment(`${networks}: '[{"name": "lan", "ips": ["10.0.0.1/24"]}]'`);
  const own = `${lan}---\n${request}`;
  const dir = await directoryOf({ "a.yaml": without, "b.yaml": own, "c.yaml": without });
  expect(await linesOf(["check", dir])).toEqual(fine);
});

test("check reports the problem of a definition once, not at its pods too", async () => {
  const { out } = await check(`${nad("'{'")}---\n${pods}`);
  expect(out).toEqual([expect.stringMatching(/^-:5: spec\.config: /)]);
});

test('check counts the lines of stdin after "# Source: FILE", as helm prints it', async () => {
  const bad = nad("'{'");
  const text = `---\n# Source: x/a.yaml\n${bad}---\n# Source: x/b.yaml\n# more\n${bad}`;
  const { out } = await check(text);
  expect(out.map((each) => each.split(": ")[0])).toEqual(["x/a.yaml:5", "x/b.yaml:6"]);
});

test("check -o json has the parts of each problem", async () => {
  const { code, out } = await check(nad(`'{"type": 1}'`), "-o", "json");
  expect({ code, problems: JSON.parse(out.join("")) }).toEqual({
    code: 1,
    problems: [
      {
        file: "-",
        line: 5,
        key: "spec.config",
        problem: "plugins[0].type: must be a string, got 1",
        severity: "error",
      },
    ],
  });
  expect((await check(lan, "-o", "json")).out).toEqual(["[]"]);
});

test("check --workloads prints the networks of each workload", async () => {
  const text = `${lan}---\n${deployment(`${networks}: "lan,lan"`)}---\n${pods}---\nkind: Pod\nmetadata: {name: x}\n`;
  const { code, out } = await check(text, "--workloads");
  expect({ code, out }).toEqual({
    code: 0,
    out: ["Deployment/default/web default/lan", "Pod/default/web default/lan", "Pod/default/x"],
  });
});

test("check fails for a file that is not there, and without one", async () => {
  const { code, err } = await linesOf(["check", "/nonexistent.yaml"]);
  expect({ code, err }).toEqual({ code: 1, err: [expect.stringContaining("/nonexistent.yaml")] });
  expect((await linesOf(["check"])).code).toBe(2);
});
