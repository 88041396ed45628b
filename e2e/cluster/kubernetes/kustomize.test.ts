import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, test } from "vitest";
import { parseConfig } from "#daemon/config/parse.ts";
import {
  byKind,
  hostPathOf,
  loadManifests,
  type Manifest,
  mountOf,
  root,
} from "#daemon/config/testing/manifests.ts";
import { prepareTools } from "./tools.ts";

let kubectl: string;

beforeAll(async () => {
  kubectl = join((await prepareTools()).kubernetes, "kubectl");
});

/** What a kustomization makes, by kubectl. */
async function kustomize(dir: string): Promise<Manifest[]> {
  return loadManifests((await execa(kubectl, ["kustomize", `${root}deploy/${dir}`])).stdout);
}

test("kustomize makes deploy/install.yaml of deploy/base", async () => {
  const install = loadManifests(readFileSync(`${root}deploy/install.yaml`, "utf8"));
  const key = (each: Manifest): string => `${each.kind}/${each.metadata.name}`;
  const sorted = (all: Manifest[]): Manifest[] =>
    all.toSorted((a, b) => key(a).localeCompare(key(b)));
  expect(sorted(await kustomize("base"))).toEqual(sorted(install));
});

/** They come beside any overlay that installs Plexus itself. */
const additions = ["agent", "sandboxes"];
const distributions = readdirSync(`${root}deploy/overlays`).filter(
  (name) => !additions.includes(name),
);

test.each(distributions)("overlay %s keeps its paths together", async (name) => {
  const all = await kustomize(`overlays/${name}`);
  const text = byKind("ConfigMap", all).data["config.yaml"] ?? "";
  const { nodeConf } = parseConfig(text, name);
  const { spec } = byKind("DaemonSet", all).spec.template;
  const [plexusd] = spec.containers;
  const [installer] = spec.initContainers;
  const confDirs = [hostPathOf(spec, "cni-conf"), mountOf(plexusd, "cni-conf")?.mountPath];
  expect(new Set(confDirs)).toEqual(new Set([nodeConf.cniConfDir]));
  const binMounts = [plexusd, installer].map((each) => mountOf(each, "cni-bin")?.mountPath);
  const binDirs = [hostPathOf(spec, "cni-bin"), ...binMounts, installer.command[4]];
  expect(new Set(binDirs)).toEqual(new Set(nodeConf.binDirs));
});

test("component metrics gives plexusd the rights and the port that the PodMonitor reads from", async () => {
  const all = await kustomize("overlays/metrics");
  const [plexusd] = byKind("DaemonSet", all).spec.template.spec.containers;
  expect(plexusd.args).toEqual(["--config", "/etc/plexus/config.yaml", "--metrics", "*:19501"]);
  expect(plexusd.ports).toEqual([{ name: "metrics", containerPort: 19501, protocol: "TCP" }]);
  const monitoring = await kustomize("monitoring");
  const kinds = monitoring.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
  expect(kinds.toSorted()).toEqual([
    "ConfigMap/plexus-dashboard",
    "PodMonitor/plexus",
    "PrometheusRule/plexus",
  ]);
  const text = JSON.stringify(monitoring.find(({ kind }) => kind === "PodMonitor"));
  expect(text).toContain('"name":"plexus-metrics-reader"');
  const secrets = all.filter(({ kind }) => kind === "Secret").map(({ metadata }) => metadata.name);
  expect(secrets).toEqual(["plexus-metrics-reader"]);
});

test("overlay talos leaves the host's /etc/plexus alone, which is read-only there", async () => {
  for (const dir of ["overlays/talos", "overlays/talos/uninstall"]) {
    const { spec } = byKind("DaemonSet", await kustomize(dir)).spec.template;
    expect(spec.volumes.map((volume) => volume.name)).not.toContain("host-config");
    expect(mountOf(spec.initContainers[0], "host-config")).toBeUndefined();
  }
});

test.each(["k3s", "openshift"])("overlay %s uninstalls where it installs", async (name) => {
  const text = byKind("ConfigMap", await kustomize(`overlays/${name}`)).data["config.yaml"] ?? "";
  const { nodeConf } = parseConfig(text, name);
  const uninstaller = await kustomize(`overlays/${name}/uninstall`);
  const { spec } = byKind("DaemonSet", uninstaller).spec.template;
  const [container] = spec.initContainers;
  expect(container.command.slice(3)).toEqual([
    `--cni-conf-dir=${nodeConf.cniConfDir}`,
    `--bin-dir=${nodeConf.binDirs[0]}`,
  ]);
  for (const mount of container.volumeMounts ?? []) {
    expect(hostPathOf(spec, mount.name)).toBe(mount.mountPath);
  }
});

test("overlay agent adds to what is installed, and has the plugin directories of every distribution", async () => {
  const agent = await kustomize("overlays/agent");
  expect(agent.map(({ kind, metadata }) => `${kind}/${metadata.name}`).toSorted()).toEqual([
    "DaemonSet/plexus-agent",
    "ServiceAccount/plexus-agent",
  ]);
  const { spec } = byKind("DaemonSet", agent).spec.template;
  const path = spec.containers[0].env?.find(({ name }) => name === "CNI_PATH")?.value;
  for (const name of distributions) {
    const all = await kustomize(`overlays/${name}`);
    const text = byKind("ConfigMap", all).data["config.yaml"] ?? "";
    expect(path?.split(":")).toContain(parseConfig(text, name).nodeConf.binDirs[0]);
  }
});
