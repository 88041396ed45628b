import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import type { NodeConfSpec } from "#daemon/config/config.ts";
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
import { defaultPaths } from "#lib/files/default-paths.ts";
import { kubernetesDirectory } from "../cluster/kubernetes/build/kubernetes.ts";
import { codeBlocks } from "../support/markdown.ts";
import { agentOverlay, byName, distributions, expectSameNames, kustomize } from "./kustomize.ts";

beforeAll(async () => {
  await kubernetesDirectory();
});

test("deploy/install.yaml is what kustomize renders from deploy/base", async () => {
  const install = loadManifests(readFileSync(`${root}deploy/install.yaml`, "utf8"));
  expect(byName(await kustomize("base"))).toEqual(byName(install));
});

/** The node's configuration in an overlay. */
function nodeConfOf(name: string, all: readonly Manifest[]): NodeConfSpec {
  const text = byKind("ConfigMap", all).data["platform.yaml"] ?? "";
  return parseConfig(text, name).nodeConf;
}

test.each(distributions)("overlay %s installs and uninstalls in the same places", async (name) => {
  const installed = await kustomize(`overlays/${name}`);
  const { cniConfDir, shimDir } = nodeConfOf(name, installed);
  const { spec } = byKind("DaemonSet", installed).spec.template;
  expectSameNames(spec);
  const [plexusd] = spec.containers;
  const [installer] = spec.initContainers;
  expect(hostPathOf(spec, "cni-conf")).toBe(cniConfDir);
  expect(hostPathOf(spec, "cni-bin")).toBe(shimDir);
  expect(mountOf(plexusd, "cni-conf")?.mountPath).toBe(cniConfDir);
  expect(mountOf(plexusd, "cni-bin")).toMatchObject({ mountPath: shimDir, readOnly: true });
  expect(mountOf(installer, "cni-bin")).toEqual({ name: "cni-bin", mountPath: shimDir });

  const uninstaller = byKind("DaemonSet", await kustomize(`overlays/${name}/uninstall`));
  expectSameNames(uninstaller.spec.template.spec);
  const [container] = uninstaller.spec.template.spec.initContainers;
  const flags = (container.args ?? []).map((arg) => arg.split("="));
  expect(Object.fromEntries([...defaultFlags, ...flags])).toEqual({
    "--cni-conf-dir": cniConfDir,
    "--bin-dir": shimDir,
  });
  expect(mountOf(container, "cni-conf")?.mountPath).toBe(cniConfDir);
  expect(mountOf(container, "cni-bin")?.mountPath).toBe(shimDir);
  const { namespace } = byKind("DaemonSet", installed).metadata;
  expect(uninstaller.metadata.namespace).toBe(namespace);
});

const defaultFlags = [
  ["--cni-conf-dir", defaultPaths.cniConfDir],
  ["--bin-dir", defaultPaths.cniBinDir],
];

test("overlay metrics adds the port and the token Secret that the PodMonitor uses", async () => {
  const all = await kustomize("overlays/metrics");
  const [plexusd] = byKind("DaemonSet", all).spec.template.spec.containers;
  expect(plexusd.args).toEqual(["--config", "/etc/plexus/config.yaml", "--metrics", "*:19501"]);
  expect(plexusd.ports).toEqual([{ name: "metrics", containerPort: 19501, protocol: "TCP" }]);
  const monitoring = await kustomize("monitoring");
  expect(Object.keys(byName(monitoring)).toSorted()).toEqual([
    "ConfigMap/plexus-dashboard",
    "PodMonitor/plexus",
    "PrometheusRule/plexus",
  ]);
  const text = JSON.stringify(monitoring.find(({ kind }) => kind === "PodMonitor"));
  expect(text).toContain('"name":"plexus-metrics-reader"');
  const secrets = Object.keys(byName(all)).filter((name) => name.startsWith("Secret/"));
  expect(secrets).toEqual(["Secret/plexus-metrics-reader"]);
});

test("docs/operations/metrics.md has Prometheus verify the certificate of a Secret", async () => {
  const page = readFileSync(`${root}docs/operations/metrics.md`, "utf8");
  const blocks = codeBlocks(page).filter(({ info }) => info === "yaml kustomize");
  mkdirSync(`${root}dist/verified`, { recursive: true });
  writeFileSync(`${root}dist/verified/kustomization.yaml`, blocks[0]?.text ?? "");
  const made = byName(await kustomize("../dist/verified"));
  const ca = { secret: { name: "plexus-metrics-tls", key: "ca.crt" } };
  expect(made["PodMonitor/plexus"]?.spec).toMatchObject({
    podMetricsEndpoints: [{ tlsConfig: { serverName: "plexus-metrics", ca } }],
  });
});

test.each(distributions)(
  "overlay %s adds no capability, except kubespray DAC_OVERRIDE",
  async (name) => {
    for (const dir of [`overlays/${name}`, `overlays/${name}/uninstall`]) {
      const { spec } = byKind("DaemonSet", await kustomize(dir)).spec.template;
      const added = name === "kubespray" ? { add: ["DAC_OVERRIDE"] } : {};
      const [container] = spec.initContainers;
      for (const { securityContext } of [container, ...spec.containers.filter(isPlexusd)]) {
        expect(securityContext).toMatchObject({
          privileged: false,
          allowPrivilegeEscalation: false,
          seLinuxOptions: { type: "spc_t" },
          capabilities: { drop: ["ALL"], ...added },
        });
        expect(JSON.stringify(securityContext).includes("add")).toBe(name === "kubespray");
      }
    }
  },
);

/** The uninstaller has another container, which does nothing. */
function isPlexusd({ args }: Container): boolean {
  return args?.includes("--config") === true;
}

test.each(["talos", "bottlerocket"])(
  "overlay %s does not mount the host's /etc/plexus, which is read-only there",
  async (name) => {
    for (const dir of [`overlays/${name}`, `overlays/${name}/uninstall`]) {
      const { spec } = byKind("DaemonSet", await kustomize(dir)).spec.template;
      expect(spec.volumes.map((volume) => volume.name)).not.toContain("host-config");
      expect(mountOf(spec.initContainers[0], "host-config")).toBeUndefined();
    }
  },
);

test("overlay openshift puts everything into its own namespace, and the policies use its ServiceAccount", async () => {
  const all = await kustomize("overlays/openshift");
  const text = JSON.stringify(all);
  expect(text).not.toContain("kube-system:plexusd");
  expect(text).not.toContain("namespace: kube-system");
  const clusterWide = all.filter(({ metadata }) => metadata.namespace === undefined);
  expect(clusterWide.map(({ kind }) => kind).toSorted()).toEqual([
    "ClusterRole",
    "ClusterRoleBinding",
    "FlowSchema",
    "FlowSchema",
    "Namespace",
    "PriorityLevelConfiguration",
    "PriorityLevelConfiguration",
    "SecurityContextConstraints",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
  ]);
  const account = "system:serviceaccount:plexus:plexusd";
  for (const { spec } of all.filter(({ kind }) => kind === "ValidatingAdmissionPolicy")) {
    expect(spec.matchConditions[0].expression).toContain(`'${account}'`);
  }
  const others = ["plexus-uninstall", "plexus-endpoints"].map(
    (name) => `system:serviceaccount:plexus:${name}`,
  );
  expect(byKind("SecurityContextConstraints", all)).toMatchObject({ users: [account, ...others] });
  for (const kind of ["ClusterRoleBinding", "RoleBinding"]) {
    expect(byKind(kind, all).subjects).toMatchObject([{ namespace: "plexus" }]);
  }
});

test.each(distributions)(
  "the agent of overlay %s runs only plugins of root, except on kubespray [S-503]",
  async (name) => {
    const agent = byKind("DaemonSet", await kustomize(agentOverlay(name)));
    const { args } = agent.spec.template.spec.containers[0];
    expect(args).toEqual(name === "kubespray" ? ["--any-owner"] : undefined);
  },
);

test("overlay agent adds a DaemonSet and its account", async () => {
  expect(Object.keys(byName(await kustomize("overlays/agent"))).toSorted()).toEqual([
    "DaemonSet/plexus-agent",
    "ServiceAccount/plexus-agent",
  ]);
});

test.each(distributions)(
  "the agent of overlay %s trusts the plugin directories of its nodes, and no other [S-503]",
  async (name) => {
    const agent = byKind("DaemonSet", await kustomize(agentOverlay(name)));
    const { env } = agent.spec.template.spec.containers[0];
    const path = env?.find((variable) => variable.name === "CNI_PATH")?.value;
    const { binDirs } = nodeConfOf(name, await kustomize(`overlays/${name}`));
    expect(path?.split(":")).toEqual(binDirs);
  },
);
