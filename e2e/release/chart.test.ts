import { cp, mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { execa } from "execa";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { mergeConfigFiles } from "#daemon/config/config-files.ts";
import { unseenPaths } from "#daemon/config/host-paths.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import {
  byKind,
  type Container,
  hostPathOf,
  loadManifests,
  type Manifest,
  mountOf,
  root,
} from "#daemon/config/testing/manifests.ts";
import { viewOf } from "#host/host-view.ts";
import { flavours, suffixOf } from "../../scripts/image/flavours.ts";
import { startKeys, valuesSchema } from "../../scripts/release/values-schema.ts";
import { kubernetesDirectory } from "../cluster/kubernetes/build/kubernetes.ts";
import { chartDir, copyChart, renderChart } from "./chart.ts";
import { agentOverlay, byName, distributions, expectSameNames, kustomize } from "./kustomize.ts";
import { releaseTool } from "./tools.ts";

const crdFile = join(root, "crds/network-attachment-definitions.yaml");

beforeAll(async () => {
  await Promise.all([releaseTool("helm"), kubernetesDirectory()]);
});

test("helm lint accepts the chart without its links, and prints no warning", async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-chart-"));
  const chart = await copyChart(join(work.path, "plexus"));
  const flags = ["--strict", "--kube-version", "1.30.0"];
  const { stdout, stderr } = await execa(await releaseTool("helm"), ["lint", chart, ...flags]);
  expect(stdout).toContain("1 chart(s) linted, 0 chart(s) failed");
  expect(stderr).toBe("");
});

test("the chart has the version of package.json, and its generated files and README are up to date", async () => {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const chart = parse(await readFile(join(chartDir, "Chart.yaml"), "utf8"));
  expect(chart).toMatchObject({ version, appVersion: version });
  const schema = await readFile(join(chartDir, "values.schema.json"), "utf8");
  expect(schema, "run `npx node scripts/chart-schema.ts`").toBe(valuesSchema());
  expect(await readFile(join(chartDir, "start-keys.yaml"), "utf8")).toBe(startKeys());
  const values = parse(await readFile(join(chartDir, "values.yaml"), "utf8"));
  const { global: _, ...documented } = JSON.parse(schema).properties;
  expect(Object.keys(values)).toEqual(Object.keys(documented));
  const rows = (await readFile(join(chartDir, "README.md"), "utf8")).matchAll(/^\| `([^`]+)` \|/gm);
  expect([...rows].map(([, path]) => path)).toEqual(leavesOf(values));
});

test("what helm template prints for kubectl has no hook, as the pre-delete hook would uninstall Plexus", async () => {
  const flags = ["--kube-version", "1.30.0"];
  const { stdout } = await execa(await releaseTool("helm"), [
    "template",
    "plexus",
    chartDir,
    ...flags,
  ]);
  const kinds = loadManifests(stdout).map(({ kind, metadata }) => `${kind}/${metadata.name}`);
  expect(kinds).toContain("DaemonSet/plexus");
  expect(kinds.filter((name) => !/plexus-(uninstall|test)/.test(name))).toEqual(kinds);
  expect(stdout).not.toContain("helm.sh/hook");
});

describe("the chart renders the same objects as kustomize", () => {
  test("for deploy/base, and the CRD, which Helm keeps", async () => {
    const crd = byKind("CustomResourceDefinition", loadManifests(await readFile(crdFile, "utf8")));
    const annotations = { "helm.sh/resource-policy": "keep" };
    const kept = { ...crd, metadata: { ...crd.metadata, annotations, labels: {} } };
    expectSame(await renderChart({}), [...(await kustomize("base")), kept]);
  });

  test.each(distributions)("for overlay %s and its uninstallation", async (platform) => {
    const namespace = platform === "openshift" ? "plexus" : "kube-system";
    const values = { platform, crds: { enabled: false } };
    const made = await kustomize(`overlays/${platform}`);
    // Helm makes the namespace, or the administrator.
    const expected = made.filter(({ kind }) => kind !== "Namespace");
    expectSame(await renderChart({ values, namespace }), expected);

    const hooks = (await renderChart({ values, namespace, hooks: true })).filter(isUninstallHook);
    const uninstall = await kustomize(`overlays/${platform}/uninstall`);
    expect(Object.keys(byName(hooks))).toEqual(Object.keys(byName(uninstall)));
    expectSame(hooks.filter(isDaemonSet).map(withoutHooks), uninstall.filter(isDaemonSet));
  });

  test.each(distributions)("for the agent of overlay %s", async (platform) => {
    const values = { platform, agent: { enabled: true } };
    const isAgent = ({ metadata }: Manifest): boolean => metadata.name === "plexus-agent";
    const all = await renderChart({ values });
    expectSame(all.filter(isAgent), await kustomize(agentOverlay(platform)));
  });

  test.each([
    ["metrics", { metrics: { enabled: true } }, ["overlays/metrics"]],
    ["startupTaint", { startupTaint: { enabled: true } }, ["../examples/startup-taint"]],
    [
      "networkPlacement",
      { networkPlacement: { enabled: true } },
      ["../examples/network-placement"],
    ],
    ["flavour thin", { flavour: "thin" }, ["overlays/thin"]],
    ["referencePlugins", { referencePlugins: { enabled: true } }, ["overlays/reference-plugins"]],
    ["agent", { agent: { enabled: true } }, ["base", "overlays/agent"]],
    ["dhcp", { dhcp: { enabled: true } }, ["base", "overlays/dhcp"]],
    [
      "monitoring",
      { metrics: { enabled: true, monitoring: true } },
      ["overlays/metrics", "monitoring"],
    ],
  ])("with %s", async (_name, values, folders) => {
    const made = await Promise.all(folders.map(kustomize));
    expectSame(await renderChart({ values: { ...values, crds: { enabled: false } } }), made.flat());
  });

  test.each([
    ["deviceCheckpoint", "device-checkpoint"],
    ["endpoints", "endpoints"],
  ])("with %s", async (name, component) => {
    const values = { [name]: { enabled: true }, crds: { enabled: false } };
    expectSame(await renderChart({ values }), await withComponents([component]));
  });

  test("with every policy, whose actions and lists kustomize can change as the chart does", async () => {
    const values = { admission: admissionOf(["Deny"]), crds: { enabled: false } };
    expectSame(await renderChart({ values }), await withComponents(admissionComponents));
    const lists = { pluginTypes: ["bridge", "my.plugin"], statusWriters: ["velero"] };
    const admission = { ...admissionOf(["Warn", "Audit"]), ...lists };
    const patched = await renderChart({ values: { ...values, admission } });
    expectSame(patched, await withComponents(admissionComponents, admissionChanges));
  });
});

test("the chart renders the same resources injector as kustomize, with another image and namespace, and no other objects", async () => {
  const name = "network-resources-injector";
  const pair = { certificate: "certificate", key: "key" };
  await using folder = await mkdtempDisposable(join(tmpdir(), "plexus-injector-"));
  const component = join(folder.path, "component");
  await cp(join(root, "deploy/components/resources-injector"), component, { recursive: true });
  await writeFile(join(folder.path, "tls.crt"), pair.certificate);
  await writeFile(join(folder.path, "tls.key"), pair.key);
  const options = { disableNameSuffixHash: true, labels: { "app.kubernetes.io/name": name } };
  const files = ["tls.crt", "tls.key"];
  const secret = { name, namespace: "kube-system", type: "kubernetes.io/tls", files, options };
  const kustomization = JSON.stringify({ components: ["component"], secretGenerator: [secret] });
  await writeFile(join(folder.path, "kustomization.yaml"), kustomization);
  const made = await kustomize(relative(join(root, "deploy"), folder.path));
  const names = [name, "plexus-resources-injector"];
  const isInjector = ({ metadata }: Manifest): boolean => names.includes(metadata.name);
  const rendered = async (more = {}, namespace?: string): Promise<Manifest[]> => {
    const values = { resourcesInjector: { enabled: true, ...pair, ...more } };
    return renderChart({ values, ...(namespace !== undefined && { namespace }) });
  };
  const all = await rendered();
  expectSame(all.filter(isInjector), made);
  expectSame(
    all.filter((each) => !isInjector(each)),
    await renderChart({}),
  );
  const other = JSON.stringify((await rendered({ image: "a/b:1" }, "networks")).filter(isInjector));
  expect(other).toContain('"image":"a/b:1"');
  expect(other).not.toContain("kube-system");
  await expect(rendered({ key: "" })).rejects.toThrow("resourcesInjector.certificate");
});

interface MonitorSpec {
  readonly jobLabel: string;
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly podMetricsEndpoints?: readonly object[];
  readonly endpoints?: readonly object[];
}

/** What the Prometheus operator reads. */
function monitorOf(kind: string, all: readonly Manifest[]): MonitorSpec {
  return byKind(kind, all).spec as unknown as MonitorSpec;
}

describe("the chart's values", () => {
  test("set the image", async () => {
    const digest = `sha256:${"a".repeat(64)}`;
    const repository = "registry.example.org:5000/plexus";
    const imagesOf = async (image: object): Promise<string[]> => {
      const values = { image, agent: { enabled: true } };
      const text = JSON.stringify(await renderChart({ values }));
      return [
        ...new Set([...text.matchAll(/"image":"([^"]*)"/g)].flatMap(([, name = ""]) => name)),
      ];
    };
    expect(await imagesOf({})).toEqual(["localhost/plexus:dev"]);
    expect(await imagesOf({ repository, tag: "v1" })).toEqual([`${repository}:v1`]);
    expect(await imagesOf({ repository, tag: "v1", digest })).toEqual([`${repository}@${digest}`]);
  });

  test.each(
    flavours.flatMap((each) => ["referencePlugins", "dhcp"].map((needs) => ({ ...each, needs }))),
  )("choose the image with $standalone and $plugins for $needs", async (flavour) => {
    const choice = {
      flavour: flavour.standalone ? "thin" : "thick",
      [flavour.needs]: { enabled: flavour.plugins },
    };
    const imageOf = async (image: object): Promise<string | undefined> => {
      const text = JSON.stringify(await renderChart({ values: { ...choice, image } }));
      return /"image":"([^"]*)"/.exec(text)?.[1];
    };
    const repository = "registry.example.org/plexus";
    const suffix = suffixOf(flavour);
    expect(await imageOf({})).toBe(`localhost/plexus:dev${suffix}`);
    expect(await imageOf({ repository })).toBe(`${repository}:dev${suffix}`);
    expect(await imageOf({ tag: "mine" })).toBe("localhost/plexus:mine");
  });

  test("install the reference plugins into the directory of the platform", async () => {
    const values = { referencePlugins: { enabled: true }, platform: "k3s" };
    const { spec } = byKind("DaemonSet", await renderChart({ values })).spec.template;
    const [install, plugins] = spec.initContainers as unknown as [Container, Container];
    expectSameNames(spec);
    expect(mountOf(plugins, "cni-bin")).toEqual(mountOf(install, "cni-bin"));
    expect(plugins.args).toEqual([`--bin-dir=${hostPathOf(spec, "cni-bin")}`]);
  });

  test("allow any namespace, which the policies, roles and configuration then use", async () => {
    const on = { enabled: true };
    const values = { startupTaint: on, networkPlacement: on, metrics: on };
    const all = await renderChart({ values, namespace: "networking" });
    expect(JSON.stringify(all)).not.toContain("kube-system:plexusd");
    expect(JSON.stringify(all)).not.toContain('"namespace":"kube-system"');
    const policies = all.filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
    expect(policies).toHaveLength(4);
    for (const { spec } of policies) {
      const [{ expression }] = spec.matchConditions;
      expect(expression).toContain("'system:serviceaccount:networking:plexusd'");
    }
    expect(configOf(all)).toMatchObject({ plexusNamespace: "networking" });
  });

  test("mount every directory that the configuration names", async () => {
    const config = {
      clusterNetwork: "/etc/cni/primary/10-a.conflist",
      readinessindicatorfile: "/run/primary/ready",
      defaultNetworks: ["red", "/srv/networks/blue.conf"],
      confDir: "/srv/networks",
      primaryDir: "/etc/cni/net.d/primary.d",
      binDir: "/srv/plugins",
    };
    const all = await renderChart({ values: { config, kubeletDir: "/data/kubelet" } });
    const { spec } = byKind("DaemonSet", all).spec.template;
    const [plexusd] = spec.containers;
    const mounts = plexusd.volumeMounts ?? [];
    const parsed = parseConfig(JSON.stringify(config), "config");
    expect(unseenPaths(parsed, viewOf(mounts.map(({ mountPath }) => mountPath)))).toEqual([]);
    const paths = mounts.map(({ mountPath }) => mountPath);
    expect(paths).not.toContain("/etc/cni/net.d/primary.d");
    expect(new Set(paths).size).toBe(paths.length);
    expectSameNames(spec);
    expect(mountOf(plexusd, "pod-resources")?.mountPath).toBe("/data/kubelet/pod-resources");
    expect(plexusd.args?.slice(-2)).toEqual(["--kubelet-dir", "/data/kubelet"]);
    expect(configOf(all)).toMatchObject(config);
  });

  test("are in the installation's ConfigMap: the operator's is never Helm's", async () => {
    const values = { platform: "k3s", config: { hotPlug: true } };
    const all = await renderChart({ values });
    const maps = all.filter(({ kind }) => kind === "ConfigMap");
    expect(maps.map(({ metadata }) => metadata.name)).toEqual(["plexus-platform"]);
    const cniBinDir = "/var/lib/rancher/k3s/data/cni";
    expect(configOf(all)).toMatchObject({ cniBinDir, hotPlug: true });
  });

  test("label what the Prometheus operator selects", async () => {
    const metrics = { enabled: true, monitoring: true, labels: { release: "stack" } };
    const all = await renderChart({ values: { metrics } });
    for (const kind of ["PodMonitor", "PrometheusRule"])
      expect(byKind(kind, all).metadata).toMatchObject({ labels: { release: "stack" } });
  });

  test("have Prometheus verify the certificate, by a ServiceMonitor where one is wanted", async () => {
    const tlsConfig = { ca: { secret: { name: "plexus-metrics-tls", key: "ca.crt" } } };
    const serviceAnnotations = { "service.beta.openshift.io/serving-cert-secret-name": "plexus" };
    const metrics = { enabled: true, monitoring: true, port: 19999, tlsConfig, serviceAnnotations };
    const pods = monitorOf("PodMonitor", await renderChart({ values: { metrics } }));
    expect(pods.podMetricsEndpoints?.[0]).toMatchObject({ port: "metrics", tlsConfig });

    const values = { metrics: { ...metrics, serviceMonitor: true } };
    const all = await renderChart({ values, namespace: "networking" });
    expect(all.filter(({ kind }) => kind === "PodMonitor")).toEqual([]);
    const { selector, endpoints, ...rest } = monitorOf("ServiceMonitor", all);
    expect(endpoints).toEqual(pods.podMetricsEndpoints);
    expect(rest).toEqual({ jobLabel: pods.jobLabel });
    const service = byKind("Service", all);
    expect(service.metadata).toMatchObject({
      namespace: "networking",
      labels: selector.matchLabels,
      annotations: serviceAnnotations,
    });
    const ports = [{ name: "metrics", port: 19_999, targetPort: "metrics" }];
    expect(service.spec).toEqual({ clusterIP: "None", selector: selector.matchLabels, ports });
    expect(byKind("DaemonSet", all).spec.template.metadata.labels).toMatchObject(
      selector.matchLabels,
    );
  });

  test("set tolerations and nodeSelector of every DaemonSet", async () => {
    const tolerations = [{ key: "example.org/network", operator: "Exists" }];
    const placed = { tolerations, nodeSelector: { pool: "a" } };
    const additions = { agent: { enabled: true } };
    const all = await renderChart({ values: { ...placed, ...additions, platform: "k3s" } });
    const specs = all.flatMap(({ kind, spec }) => (kind === "DaemonSet" ? spec.template.spec : []));
    expect(specs).toHaveLength(2);
    const nodeSelector = { "kubernetes.io/os": "linux", pool: "a" };
    for (const spec of specs) expect(spec).toMatchObject({ tolerations, nodeSelector });
  });

  test("add affinity to what keeps every pod off virtual nodes, or replace its terms", async () => {
    const on = { enabled: true };
    const additions = { agent: on, dhcp: on };
    const affinitiesOf = async (affinity: object): Promise<object[]> => {
      const all = await renderChart({ values: { ...additions, affinity }, hooks: true });
      const isPlaced = ({ kind }: Manifest): boolean => ["DaemonSet", "Job"].includes(kind);
      return all.filter(isPlaced).map(({ spec }) => spec.template.spec.affinity);
    };
    const [first, ...others] = await affinitiesOf({ podAffinity: { x: 1 } });
    expect(others).toEqual([first, first, first, first]);
    expect(first).toMatchObject({ podAffinity: { x: 1 } });
    expect(JSON.stringify(first)).toContain('"eks.amazonaws.com/compute-type"');
    const terms = [{ matchExpressions: [{ key: "pool", operator: "In", values: ["a"] }] }];
    const own = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } };
    for (const each of await affinitiesOf({ nodeAffinity: own })) {
      expect(each).toEqual({ nodeAffinity: own });
    }
  });

  test("set what pods and containers of the DaemonSets have beside that", async () => {
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: {} } };
    const pods = { affinity, priorityClassName: "network" };
    const metadata = { podAnnotations: { team: "a" }, podLabels: { cost: "b" } };
    const containers = {
      resources: { limits: { memory: "1Gi" } },
      initResources: { limits: { cpu: "1" } },
      extraEnv: [{ name: "HTTPS_PROXY", value: "http://proxy:3128" }],
    };
    const updateStrategy = { type: "OnDelete" };
    const on = { enabled: true };
    const additions = { agent: on, dhcp: on };
    const values = { ...pods, ...metadata, ...containers, ...additions, updateStrategy };
    const made = (await renderChart({ values })).filter(({ kind }) => kind === "DaemonSet");
    expect(made).toHaveLength(3);
    for (const { spec } of made) {
      expect(spec.template).toMatchObject({
        metadata: { annotations: metadata.podAnnotations, labels: metadata.podLabels },
        spec: pods,
      });
      expect(spec.template.metadata.labels).toMatchObject(spec.selector.matchLabels);
    }
    const plexus = made.find(({ metadata: { name } }) => name === "plexus");
    const { initContainers, containers: [plexusd] = [] } = plexus?.spec.template.spec ?? {};
    expect(plexus?.spec.updateStrategy).toEqual(updateStrategy);
    expect(initContainers?.[0]).toMatchObject({ resources: containers.initResources });
    expect(plexusd).toMatchObject({ resources: containers.resources });
    expect(plexusd?.env?.map(({ name }) => name)).toEqual([
      "NODE_NAME",
      "POD_NAMESPACE",
      "POD_NAME",
      "MALLOC_ARENA_MAX",
      "HTTPS_PROXY",
    ]);
  });

  test("replace plexusd's pods after a change of keys that it reads only when it starts", async () => {
    const checksum = async (config: object): Promise<string> => {
      const { template } = byKind("DaemonSet", await renderChart({ values: { config } })).spec;
      return template.metadata.annotations["checksum/config"] ?? "";
    };
    const before = await checksum({});
    expect(before).toMatch(/^[0-9a-f]{64}$/);
    expect(await checksum({ logLevel: "debug" })).toBe(before);
    expect(await checksum({ apiTimeoutMs: 1000 })).not.toBe(before);
    expect(await checksum({ primaryDir: "/srv/primary" })).not.toBe(before);
  });

  test("pass the directory of the primary CNI's configuration to the uninstaller", async () => {
    const config = { primaryDir: "/srv/primary" };
    const all = await renderChart({
      values: { config, uninstall: true, agent: { enabled: true } },
    });
    const { spec } = byKind("DaemonSet", all).spec.template;
    expect(spec.initContainers[0].args).toEqual(["--primary-dir=/srv/primary"]);
    expectSameNames(spec);
  });

  test("leave the DHCP daemon, which the DELs of the last pods need, beside the uninstaller", async () => {
    const on = { enabled: true };
    const values = { uninstall: true, agent: on, dhcp: on };
    const daemonSets = (await renderChart({ values })).filter(({ kind }) => kind === "DaemonSet");
    const names = daemonSets.map(({ metadata }) => metadata.name);
    expect(names.toSorted()).toEqual(["plexus-dhcp", "plexus-uninstall"]);
  });

  test("reach the hook that hands the nodes back before helm uninstall deletes plexusd", async () => {
    const nodeSelector = { pool: "a" };
    const config = { primaryDir: "/srv/primary" };
    const values = { platform: "talos", nodeSelector, config, uninstallSeconds: 1520 };
    const namespace = "networking";
    const all = await renderChart({ values, namespace, hooks: true });
    const hooks = all.filter(isUninstallHook);
    const kinds = ["ServiceAccount", "Role", "RoleBinding", "DaemonSet", "Job"];
    const names = kinds.map((kind) => `${kind}/plexus-uninstall`);
    expect(hooks.map(({ kind, metadata }) => `${kind}/${metadata.name}`)).toEqual(names);
    const checks = byKind("DaemonSet", hooks).spec.template.spec;
    // The Job removes it.
    expect(checks.initContainers[0].command[3]).toBe("--check");
    expect(checks.initContainers[0].args).toEqual(["--primary-dir=/srv/primary"]);
    const { spec } = byKind("Job", hooks).spec.template;
    expect(spec).toMatchObject({ hostNetwork: true, nodeSelector });
    expect(spec.containers[0].args).toContain("--seconds=1510");
    expect(byKind("Job", hooks).spec).toHaveProperty("activeDeadlineSeconds", 1520);
    expect(spec.containers[0].env).toContainEqual({
      name: "KUBERNETES_SERVICE_PORT",
      value: "7445",
    });
    const subjects = [{ kind: "ServiceAccount", name: "plexus-uninstall", namespace }];
    expect(byKind("RoleBinding", hooks).subjects).toEqual(subjects);
    // The Job then waits for the DaemonSet of the release.
    const uninstalling = await renderChart({ values: { uninstall: true }, hooks: true });
    const waiting = uninstalling.filter(isUninstallHook).map(({ kind }) => kind);
    expect(waiting).toEqual(kinds.filter((kind) => kind !== "DaemonSet"));
  });

  test.each([
    { anyOwner: true, platform: "", args: ["--any-owner"] },
    { anyOwner: false, platform: "kubespray", args: undefined },
  ])("let the agent run plugins of any owner, or not: $anyOwner", async (row) => {
    const { anyOwner, platform, args } = row;
    const all = await renderChart({ values: { platform, agent: { enabled: true, anyOwner } } });
    const agent = all.find(
      ({ kind, metadata }) => kind === "DaemonSet" && metadata.name === "plexus-agent",
    );
    expect(agent?.spec.template.spec.containers[0]?.args).toEqual(args);
  });

  test("exempt the namespace of Plexus's definitions from the policy, and let this plexusd write statuses", async () => {
    const expressionsOf = async (config: object): Promise<string> => {
      const values = { config, admission: admissionOf(["Deny"]) };
      return JSON.stringify(await renderChart({ values, namespace: "networking" }));
    };
    const own = await expressionsOf({});
    expect(own).toContain(`"expression":"['networking']"`);
    expect(own).toContain(`"expression":"['system:serviceaccount:networking:plexusd']"`);
    const other = await expressionsOf({ plexusNamespace: "networks" });
    expect(other).toContain(`"expression":"['networks']"`);
  });

  test("let plexusd remove only the configured taint", async () => {
    const values = { startupTaint: { enabled: true, key: "example.org/starting" } };
    const all = await renderChart({ values });
    expect(configOf(all)).toMatchObject({ startupTaint: "example.org/starting" });
    const policies = all.filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
    expect(JSON.stringify(policies)).toContain(`"expression":"['example.org/starting']"`);
  });

  test("null is the default, for every value and section", async () => {
    const values = parse(await readFile(join(chartDir, "values.yaml"), "utf8"));
    const base = [
      "metrics",
      "agent",
      "dhcp",
      "startupTaint",
      "networkPlacement",
      "deviceCheckpoint",
      "endpoints",
    ];
    const on = Object.fromEntries(base.map((name) => [name, { enabled: true }]));
    const monitoring = { enabled: true, monitoring: true, serviceMonitor: true };
    const all = {
      ...on,
      metrics: monitoring,
      resourcesInjector: { enabled: true, certificate: "certificate", key: "key" },
      admission: admissionOf(["Deny"]),
      flavour: "thin",
      referencePlugins: { enabled: true },
    };
    // A failure is compared by its message: metrics.monitoring has no effect if metrics.enabled is null.
    const rendered = async (path: string, value: unknown): Promise<unknown> =>
      renderChart({ values: withValue(all, path, value), hooks: true }).catch(messageOf);
    const paths = [...Object.keys(values), ...leavesOf(values)];
    const pathsAtOnce = 4;
    const isChecked: string[] = [];
    const check = async (): Promise<void> => {
      for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
        const expected = path.split(".").reduce((section, name) => section[name], values);
        const [made, usual] = [await rendered(path, null), await rendered(path, expected)];
        expect(made, path).toEqual(usual);
        isChecked.push(path);
      }
    };
    await Promise.all(Array.from({ length: pathsAtOnce }, check));
    expect(isChecked.length).toBeGreaterThan(60);
  }, 300_000);

  test.each([
    ["metrics.monitoring", { metrics: { monitoring: true } }, "metrics.enabled=true"],
    [
      "metrics.serviceMonitor",
      { metrics: { enabled: true, serviceMonitor: true } },
      "metrics.monitoring=true",
    ],
    ["agent.anyOwner", { agent: { anyOwner: true } }, "agent.enabled=true"],
  ])("refuse %s if it has no effect", async (path, values, needed) => {
    const message = `${path} has no effect without ${needed}`;
    await expect(renderChart({ values })).rejects.toThrow(message);
  });

  test("accept a former key, of which plexusd warns", async () => {
    const all = await renderChart({ values: { config: { delBudgetMs: 1, logLevel: "warn" } } });
    expect(byKind("ConfigMap", all).data["platform.yaml"]).toContain("delBudgetMs: 1");
    expect(configOf(all)).toMatchObject({ logLevel: "warn" });
    expect(configOf(all)).not.toHaveProperty("delBudgetMs");
  });

  test.each([
    ["an unknown value", { metricz: {} }, "metricz"],
    ["an unknown value of a section", { metrics: { monitored: true } }, "monitored"],
    [
      "an unknown key of a rolling update",
      { updateStrategy: { rollingUpdate: { max: 1 } } },
      "'max' not allowed",
    ],
    ["an unknown affinity", { affinity: { node: {} } }, "'node' not allowed"],
    ["an unknown key of a variable", { extraEnv: [{ name: "A", val: "b" }] }, "'val' not allowed"],
    ["an unknown platform", { platform: "k9s" }, "platform"],
    ["an unknown key of the configuration", { config: { clusterNetwrok: "a" } }, "clusterNetwrok"],
    [
      "a value of a wrong type in the configuration",
      { config: { delGraceMs: "1s" } },
      "delGraceMs",
    ],
    ["a relative directory", { config: { confDir: "net.d" } }, "/config/confDir"],
    ["a relative directory of a list", { config: { cniBinDir: ["bin"] } }, "/config/cniBinDir"],
    ["a directory that is /", { config: { primaryDir: "/" } }, "/config/primaryDir"],
    [
      "a network whose directory is /",
      { config: { clusterNetwork: "/10-a.conflist" } },
      "config: the directory of /10-a.conflist is /, which cannot be mounted",
    ],
    [
      "two names of the namespace",
      { config: { multusNamespace: "a", plexusNamespace: "a" } },
      "config.multusNamespace is a former name of config.plexusNamespace",
    ],
    [
      "a label that selects the pods",
      { podLabels: { "app.kubernetes.io/name": "mine" } },
      "podLabels",
    ],
    ["a resource beside limits and requests", { resources: { memory: "1Gi" } }, "memory"],
    ["an unknown update strategy", { updateStrategy: { type: "Foo" } }, "updateStrategy"],
    ["an invalid taint", { startupTaint: { key: "not a key" } }, "startupTaint"],
    ["an unknown key of a toleration", { tolerations: [{ keys: "a" }] }, "tolerations"],
    ["an unknown action", { admission: { pods: ["Refuse"] } }, "/admission/pods"],
    ["a denial with a warning", { admission: { pods: ["Deny", "Warn"] } }, "/admission/pods"],
    [
      "a user that would end its text",
      { admission: { status: ["Deny"], statusWriters: ["a', 'b"] } },
      "/admission/statusWriters",
    ],
    ["an invalid image digest", { image: { digest: "latest" } }, "digest"],
  ])("reject %s", async (_name, values, key) => {
    await expect(renderChart({ values })).rejects.toThrow(key);
  });
});

/** A copy of the values with another one at this path. */
function withValue(values: object, path: string, value: unknown): object {
  const [name = "", ...rest] = path.split(".");
  const section = (values as Record<string, object>)[name];
  if (rest.length === 0) return { ...values, [name]: value };
  return { ...values, [name]: withValue({ ...section }, rest.join("."), value) };
}

/** Helm's message. */
function messageOf(error: unknown): string {
  return (error as { stderr: string }).stderr;
}

/** The paths of all values: `image.tag`. An empty object is one value. */
function leavesOf(values: object, prefix = ""): string[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const isSection = typeof value === "object" && value !== null && Object.keys(value).length > 0;
    return isSection ? leavesOf(value, `${prefix}${name}.`) : [prefix + name];
  });
}

const isDaemonSet = ({ kind }: Manifest): boolean => kind === "DaemonSet";

function withoutHooks({ metadata: { annotations: _, ...metadata }, ...rest }: Manifest): Manifest {
  return { ...rest, metadata };
}

function isUninstallHook({ metadata: { annotations } }: Manifest): boolean {
  return annotations?.["helm.sh/hook"] === "pre-delete";
}

const admissionComponents = ["definitions", "pods", "status", "in-use"].map(
  (name) => `admission-${name}`,
);

/** All policies with these actions. */
function admissionOf(actions: readonly string[]): object {
  return { definitions: actions, pods: actions, status: actions, inUse: actions };
}

/** What replaces a variable of a policy: kustomize does not merge these lists by name. */
function otherVariable(policy: string, name: string, sourceValue: string): object {
  const select = { kind: "ValidatingAdmissionPolicy", name: policy };
  const fieldPaths = [`spec.variables.[name=${name}].expression`];
  return { sourceValue, targets: [{ select, fieldPaths }] };
}

const account = "system:serviceaccount:kube-system:plexusd";
const actions = [{ op: "replace", path: "/spec/validationActions", value: ["Warn", "Audit"] }];
const admissionChanges = {
  patches: [
    {
      target: { kind: "ValidatingAdmissionPolicyBinding", name: "plexus-.*" },
      patch: JSON.stringify(actions),
    },
  ],
  replacements: [
    otherVariable("plexus-definitions", "pluginTypes", "['bridge', 'my.plugin']"),
    otherVariable("plexus-status", "statusWriters", `['${account}', 'velero']`),
  ],
};

/** deploy/base with some of deploy/components. */
async function withComponents(names: readonly string[], changes: object = {}): Promise<Manifest[]> {
  await mkdir(join(root, "dist"), { recursive: true });
  await using folder = await mkdtempDisposable(join(root, "dist/.kustomization-"));
  const components = names.map((name) => `../../deploy/components/${name}`);
  const kustomization = { resources: ["../../deploy/base"], components, ...changes };
  await writeFile(join(folder.path, "kustomization.yaml"), JSON.stringify(kustomization));
  return await kustomize(relative(join(root, "deploy"), folder.path));
}

/** plexusd's configuration. @throws Error when plexusd would reject it */
function configOf(all: readonly Manifest[]): object {
  const { data } = byKind("ConfigMap", all);
  const texts = { own: "", platform: data["platform.yaml"] };
  return JSON.parse(mergeConfigFiles("config.yaml", texts).text) as object;
}

function expectSame(made: readonly Manifest[], expected: readonly Manifest[]): void {
  expect(byName(made.map(comparable))).toEqual(byName(expected.map(comparable)));
}

/**
 * Normalizes the order of volumes and mounts, and the formatting of YAML. The checksum and the suffix of the image are
 * the chart's own.
 */
function comparable(manifest: Manifest): Manifest {
  const plain = JSON.stringify(manifest).replaceAll(/("localhost\/plexus:dev)[a-z-]+"/g, '$1"');
  const each = JSON.parse(plain) as Manifest;
  const text = each.data?.["platform.yaml"];
  if (text !== undefined) return { ...each, data: parse(text) };
  if (each.kind !== "DaemonSet") return each;
  const copy = structuredClone(each);
  const { spec, metadata } = copy.spec.template as unknown as {
    spec: Sortable;
    metadata: { annotations?: Record<string, string> };
  };
  delete metadata.annotations?.["checksum/config"];
  spec.volumes?.sort(byText);
  for (const { volumeMounts } of [...spec.containers, ...(spec.initContainers ?? [])])
    volumeMounts?.sort(byText);
  return copy;
}

interface Sortable {
  readonly volumes?: object[];
  readonly containers: readonly { readonly volumeMounts?: object[] }[];
  readonly initContainers?: Sortable["containers"];
}

function byText(a: object, b: object): number {
  const text = (each: object): string => JSON.stringify(Object.entries(each).toSorted());
  return text(a).localeCompare(text(b));
}
