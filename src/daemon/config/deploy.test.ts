import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, test } from "vitest";
import { engineKeys } from "#engine/config-keys.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { cniDeviceInfoDir } from "#npwg/device-info.ts";
import { defaultConfig } from "./config.ts";
import { parseConfig } from "./parse.ts";
import {
  byKind,
  hostPathOf,
  loadManifests,
  mountOf,
  type PodSpec,
  root,
} from "./testing/manifests.ts";

/** Rules for the manifests; e2e/cluster tests that a cluster accepts them. */

const install = loadManifests(readFileSync(`${root}deploy/install.yaml`, "utf8"));
const uninstall = loadManifests(readFileSync(`${root}deploy/uninstall/daemonset.yaml`, "utf8"));
const agent = loadManifests(readFileSync(`${root}deploy/overlays/agent/daemonset.yaml`, "utf8"));
const dhcp = loadManifests(readFileSync(`${root}deploy/overlays/dhcp/daemonset.yaml`, "utf8"));
const crdText = readFileSync(`${root}crds/network-attachment-definitions.yaml`, "utf8");
const installSpec = byKind("DaemonSet", install).spec.template.spec;
const podSpecs: [string, PodSpec][] = [
  ["plexus", installSpec],
  ["plexus-uninstall", byKind("DaemonSet", uninstall).spec.template.spec],
];

test("deploy/install.yaml is up to date; run scripts/install-manifest.ts to regenerate it", () => {
  const script = `${root}scripts/install-manifest.ts`;
  const result = spawnSync(process.execPath, [script, "--check"], { encoding: "utf8" });
  expect(result.stderr).toBe("");
  expect(result.status).toBe(0);
});

/** Every file of deploy/ with a pod that tolerates all taints. */
const tolerant = readdirSync(`${root}deploy`, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".yaml") && !name.startsWith("chart"))
  .flatMap((name) =>
    loadManifests(readFileSync(`${root}deploy/${name}`, "utf8"))
      .filter(({ spec }) => spec?.template?.spec?.tolerations !== undefined)
      .map(({ kind, spec }): [string, PodSpec] => [`${kind} in ${name}`, spec.template.spec]),
  );

test("the pods of these DaemonSets and of a Job tolerate all taints", () => {
  expect(tolerant.map(([name]) => name).sort()).toEqual([
    "DaemonSet in base/daemonset.yaml",
    "DaemonSet in install.yaml",
    ...Array.from({ length: 3 }, () => "DaemonSet in migration/daemonsets.yaml"),
    "DaemonSet in overlays/agent/daemonset.yaml",
    "DaemonSet in overlays/dhcp/daemonset.yaml",
    "DaemonSet in uninstall/daemonset.yaml",
    "Job in uninstall/hook.yaml",
  ]);
});

test.each(tolerant)("%s avoids virtual nodes, where its pods would stay Pending", (_, pod) => {
  const avoided = { "eks.amazonaws.com/compute-type": "fargate", type: "virtual-kubelet" };
  const labels = Object.entries({ ...avoided, "liqo.io/type": "virtual-node" });
  const matchExpressions = labels.map(([key, value]) => {
    return { key, operator: "NotIn", values: [value] };
  });
  const terms = [{ matchExpressions: expect.arrayContaining(matchExpressions) }];
  expect(pod.affinity).toMatchObject({
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms },
    },
  });
});

test("the shipped configuration equals the defaults", () => {
  const text = byKind("ConfigMap", install).data["platform.yaml"] ?? "";
  expect(parseConfig(text, "platform.yaml")).toEqual(defaultConfig);
});

test("no manifest contains the operator's ConfigMap, so that applying one again resets no setting", () => {
  for (const dir of ["deploy", "examples"]) {
    const files = readdirSync(`${root}${dir}`, { recursive: true, encoding: "utf8" });
    for (const file of files.filter((name) => name.endsWith(".yaml"))) {
      const text = readFileSync(`${root}${dir}/${file}`, "utf8");
      expect(text, file).not.toMatch(/kind: ConfigMap\n *metadata:\s[^#]*?name: plexus-config/);
    }
  }
  const { projected } = installSpec.volumes.find(({ name }) => name === "config") ?? {};
  expect(projected?.sources).toEqual([
    { configMap: { name: "plexus-platform" } },
    { configMap: { name: "plexus-config", optional: true } },
  ]);
});

test("the manifests use the default paths and the default port", () => {
  const [container] = installSpec.containers;
  const mounted = Object.fromEntries(
    (container.volumeMounts ?? []).map(({ name, mountPath }) => [name, mountPath]),
  );
  expect(mounted).toMatchObject({
    config: dirname(defaultPaths.configFile),
    run: dirname(defaultPaths.socket),
    state: defaultPaths.stateDir,
    "cni-conf": defaultPaths.cniConfDir,
    "cni-bin": defaultPaths.cniBinDir,
    networks: defaultPaths.confDir,
  });
  expect(container.args).toEqual(["--config", defaultPaths.configFile]);
  const { imageDir } = defaultPaths;
  expect(installSpec.initContainers[0].command).toEqual([
    `${imageDir}/node`,
    `${imageDir}/plexusctl.js`,
    "install",
    "--config",
    "/config/config.yaml",
  ]);
  const listDir = dirname(defaultPaths.pluginDirsFile);
  for (const [, spec] of podSpecs) expect(hostPathOf(spec, "host-config")).toBe(listDir);
  const { startupProbe, livenessProbe, readinessProbe } = container;
  const probes = [startupProbe, livenessProbe, readinessProbe].map((probe) => probe.exec.command);
  const probe = [
    `${imageDir}/${executableNames.shim}`,
    "probe",
    adminSocketPath(defaultPaths.socket),
  ];
  expect(probes).toEqual(["/healthz", "/healthz", "/readyz"].map((page) => [...probe, page]));
});

test("the pod's status has the log's end of a container that failed", () => {
  for (const container of [...installSpec.initContainers, ...installSpec.containers]) {
    expect(container.terminationMessagePolicy).toBe("FallbackToLogsOnError");
  }
});

test("plexusd may only read pods, definitions, their CRD, claimed devices, namespaces, its DaemonSet and its service account, patch pod status and record events [S-200] [S-201] [S-210] [S-211]", () => {
  expect(byKind("ClusterRole", install).rules).toEqual([
    {
      apiGroups: ["k8s.cni.cncf.io"],
      resources: ["network-attachment-definitions"],
      verbs: ["get", "list", "watch"],
    },
    {
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      resourceNames: ["network-attachment-definitions.k8s.cni.cncf.io"],
      verbs: ["get"],
    },
    { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
    { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
    { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
    { apiGroups: ["resource.k8s.io"], resources: ["resourceclaims"], verbs: ["get"] },
    { apiGroups: ["resource.k8s.io"], resources: ["resourceslices"], verbs: ["list"] },
    { apiGroups: ["networking.k8s.io"], resources: ["servicecidrs"], verbs: ["list"] },
    { apiGroups: [""], resources: ["nodes"], verbs: ["get"] },
    { apiGroups: [""], resources: ["namespaces"], verbs: ["list"] },
  ]);
  const { name } = byKind("DaemonSet", install).metadata;
  expect(byKind("Role", install).rules).toEqual([
    { apiGroups: ["apps"], resources: ["daemonsets"], resourceNames: [name], verbs: ["get"] },
    {
      apiGroups: [""],
      resources: ["serviceaccounts"],
      resourceNames: [byKind("ServiceAccount", install).metadata.name],
      verbs: ["list", "watch"],
    },
  ]);
});

test("the admission policies match plexusd's service account and are bound", () => {
  const { name, namespace } = byKind("ServiceAccount", install).metadata;
  const policies = install.filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
  for (const { spec } of policies) {
    const [condition] = spec.matchConditions;
    expect(condition.expression).toContain(`'system:serviceaccount:${namespace}:${name}'`);
  }
  const bindings = install.filter(({ kind }) => kind === "ValidatingAdmissionPolicyBinding");
  expect(bindings.map(({ spec }) => spec.policyName)).toEqual([
    "plexusd-own-pods",
    "plexusd-own-events",
  ]);
  expect(policies.map(({ metadata }) => metadata.name)).toEqual(
    bindings.map(({ spec }) => spec.policyName),
  );
  for (const kind of ["ClusterRoleBinding", "RoleBinding"]) {
    expect(byKind(kind, install).subjects).toEqual([{ kind: "ServiceAccount", name, namespace }]);
  }
});

test("with network-placement, plexusd may also read Nodes and patch their status, as far as a policy allows [S-214] [S-215]", () => {
  const read = (file: string) =>
    loadManifests(readFileSync(`${root}deploy/components/network-placement/${file}`, "utf8"));
  const rights = read("rbac.yaml");
  expect(byKind("ClusterRole", rights).rules).toEqual([
    { apiGroups: [""], resources: ["nodes"], verbs: ["get"] },
    { apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"] },
  ]);
  const { name, namespace } = byKind("ServiceAccount", install).metadata;
  expect(byKind("ClusterRoleBinding", rights).subjects).toEqual([
    { kind: "ServiceAccount", name, namespace },
  ]);
  const policies = read("admission-policy.yaml");
  const { metadata, spec } = byKind("ValidatingAdmissionPolicy", policies);
  expect(byKind("ValidatingAdmissionPolicyBinding", policies).spec).toEqual({
    policyName: metadata.name,
    validationActions: ["Deny"],
  });
  const [condition] = spec.matchConditions;
  expect(condition.expression).toContain(`'system:serviceaccount:${namespace}:${name}'`);
  // Everything that a Node of Kubernetes 1.37 has, but what the API server itself writes.
  const text = JSON.stringify(spec.validations);
  expect(text).toContain("startsWith('networks.plexus.dev/')).size() <= 512");
  for (const field of ["annotations", "finalizers", "ownerReferences"])
    expect(text).toContain(`object.metadata.?${field} == oldObject.metadata.?${field}`);
  for (const field of [
    ...["addresses", "config", "daemonEndpoints", "declaredFeatures", "features"],
    ...["images", "nodeInfo", "phase", "runtimeHandlers", "volumesAttached", "volumesInUse"],
  ])
    expect(text).toContain(`object.status.?${field} == oldObject.status.?${field}`);
});

test("with endpoints, another account reads pods and Services, and writes EndpointSlices as far as a policy allows [S-216] [S-217]", () => {
  const read = (file: string) =>
    loadManifests(readFileSync(`${root}deploy/components/endpoints/${file}`, "utf8"));
  const rights = read("rbac.yaml");
  expect(byKind("ClusterRole", rights).rules).toEqual([
    { apiGroups: [""], resources: ["pods", "services"], verbs: ["list", "watch"] },
    {
      apiGroups: ["discovery.k8s.io"],
      resources: ["endpointslices"],
      verbs: ["list", "watch", "create", "patch", "delete"],
    },
    { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
  ]);
  const create = { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"] };
  expect(byKind("Role", rights).rules).toEqual([
    {
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: ["plexus-endpoints"],
      verbs: ["get", "patch"],
    },
    create,
  ]);
  const { name, namespace } = byKind("ServiceAccount", rights).metadata;
  for (const kind of ["ClusterRoleBinding", "RoleBinding"])
    expect(byKind(kind, rights).subjects).toEqual([{ kind: "ServiceAccount", name, namespace }]);
  const policies = read("admission-policy.yaml");
  const { metadata, spec } = byKind("ValidatingAdmissionPolicy", policies);
  expect(byKind("ValidatingAdmissionPolicyBinding", policies).spec).toEqual({
    policyName: metadata.name,
    validationActions: ["Deny"],
  });
  expect(spec.matchConditions[0].expression).toContain(`endsWith(':${name}')`);
  const pod = byKind("Deployment", read("deployment.yaml")).spec.template.spec;
  expect(pod.serviceAccountName).toBe(name);
  expect(pod.containers[0].securityContext).toMatchObject({
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  });
});

test.each(["definitions", "pods", "status", "in-use"])(
  "component admission-%s has a policy that is bound, and denies",
  (name) => {
    const file = `${root}deploy/components/admission-${name}/admission-policy.yaml`;
    const policies = loadManifests(readFileSync(file, "utf8"));
    const { metadata, spec } = byKind("ValidatingAdmissionPolicy", policies);
    expect(metadata.name).toBe(`plexus-${name}`);
    expect(byKind("ValidatingAdmissionPolicyBinding", policies).spec).toEqual({
      policyName: metadata.name,
      validationActions: ["Deny"],
    });
    // What the API server cannot evaluate may be a valid annotation.
    expect(spec).toMatchObject({ failurePolicy: name === "pods" ? "Ignore" : "Fail" });
  },
);

const podResourcesDir = `${defaultPaths.kubeletDir}/pod-resources`;

test("plexusd mounts only the kubelet's pod-resources socket, and writes only its own device information [S-116] [D-13] [D-19]", () => {
  const [plexusd] = installSpec.containers;
  const mounts = (plexusd.volumeMounts ?? []).filter(({ mountPath }) =>
    /kubelet|k8s\.cni\.cncf\.io/.test(mountPath),
  );
  expect(mounts).toEqual([
    { name: "device-info", mountPath: "/var/run/k8s.cni.cncf.io", readOnly: true },
    { name: "cni-device-info", mountPath: cniDeviceInfoDir },
    { name: "pod-resources", mountPath: podResourcesDir, readOnly: true },
  ]);
});

describe.each(podSpecs)("the pods of DaemonSet %s", (_name, spec) => {
  const containers = [...spec.initContainers, ...spec.containers];

  test("are unprivileged [S-110]", () => {
    expect(spec.hostPID ?? false).toBe(false);
    expect(spec.hostIPC ?? false).toBe(false);
    for (const { securityContext } of containers) {
      expect(securityContext).toEqual({
        runAsUser: 0,
        runAsGroup: 0,
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        seLinuxOptions: { type: "spc_t" },
        capabilities: { drop: ["ALL"] },
        seccompProfile: { type: "RuntimeDefault" },
      });
    }
  });

  test("mount only allowed host directories, at the same paths [S-111] [S-121]", () => {
    for (const { name, mountPath } of containers.flatMap((each) => each.volumeMounts ?? [])) {
      const path = hostPathOf(spec, name);
      if (path !== undefined) expect(mountPath.replace("/var/run", "/run")).toBe(path);
    }
    const hostPaths = spec.volumes.flatMap((volume) => volume.hostPath?.path ?? []);
    const { socket, stateDir, cniConfDir, confDir, cniBinDir, pluginDirsFile } = defaultPaths;
    const deviceInfoDir = "/run/k8s.cni.cncf.io";
    const { cniStateDir } = defaultPaths;
    const deviceDirs = [deviceInfoDir, `${deviceInfoDir}/devinfo/cni`, podResourcesDir];
    const dirs = [stateDir, cniConfDir, confDir, cniBinDir, cniStateDir, ...deviceDirs];
    const allowed = [dirname(socket), dirname(pluginDirsFile), ...dirs];
    expect(hostPaths.filter((path) => !allowed.includes(path))).toEqual([]);
  });

  test("mount the state of CNI plugins and Multus read-only [S-118]", () => {
    const mounts = containers.flatMap((each) => each.volumeMounts ?? []);
    const isStateOfCni = (path: string): boolean => `${path}/`.startsWith("/var/lib/cni/");
    for (const { name, readOnly } of mounts)
      if (isStateOfCni(hostPathOf(spec, name) ?? "")) expect(readOnly).toBe(true);
  });

  test("tolerate all taints, are node-critical, and have requests but no limits", () => {
    expect(spec.tolerations).toEqual([{ operator: "Exists" }]);
    expect(spec.priorityClassName).toBe("system-node-critical");
    expect(spec.hostNetwork).toBe(true);
    for (const { resources } of containers) {
      expect(resources).toEqual({
        requests: { cpu: expect.any(String), memory: expect.any(String) },
      });
    }
  });
});

test("plexusd cannot write to the plugin directory, nor see the list of plugin directories [S-111]", () => {
  expect(mountOf(installSpec.containers[0], "cni-bin")?.readOnly).toBe(true);
  expect(mountOf(installSpec.containers[0], "host-config")).toBeUndefined();
});

test("only plexusd has a token, which expires after an hour [S-204]", () => {
  expect(installSpec.automountServiceAccountToken).toBe(false);
  const [source] =
    installSpec.volumes.find(({ name }) => name === "token")?.projected?.sources ?? [];
  // An hour and seven seconds, the default, is what API servers extend to a year.
  expect(source?.serviceAccountToken).toEqual({ path: "token", expirationSeconds: 3600 });
  expect(mountOf(installSpec.initContainers[0], "token")).toBeUndefined();
  expect(mountOf(installSpec.containers[0], "token")).toMatchObject({ readOnly: true });
});

test("the agent is the only privileged container, in a separate pod without a token or a volume", () => {
  const { spec } = byKind("DaemonSet", agent).spec.template;
  const { containers, volumes, initContainers, ...pod } = spec;
  expect({ volumes, initContainers }).toEqual({ volumes: undefined, initContainers: undefined });
  expect(pod).toMatchObject({
    hostNetwork: true,
    hostPID: true,
    automountServiceAccountToken: false,
  });
  expect(containers).toHaveLength(1);
  expect(containers[0].securityContext).toMatchObject({ privileged: true, runAsUser: 0 });
  expect(containers[0].volumeMounts).toBeUndefined();
  const { name } = byKind("ServiceAccount", agent).metadata;
  expect(pod.serviceAccountName).toBe(name);
  expect(name).not.toBe(byKind("ServiceAccount", install).metadata.name);
});

test("the agent runs the image's shim in the host's mount namespace", () => {
  const [container] = byKind("DaemonSet", agent).spec.template.spec.containers;
  expect(container.command).toEqual([
    `${defaultPaths.imageDir}/plexus`,
    "agent",
    "--attach",
    "--mount-namespace=/proc/1/ns/mnt",
  ]);
  const path = container.env?.find(({ name }) => name === "CNI_PATH")?.value;
  expect(path).toBe(defaultPaths.cniBinDir);
});

test("the overlays' patches use names, not positions in a list", () => {
  const files = readdirSync(`${root}deploy`, { recursive: true, encoding: "utf8" });
  const kustomizations = files.filter((file) => file.endsWith("kustomization.yaml"));
  expect(kustomizations.length).toBeGreaterThan(15);
  for (const file of kustomizations) {
    const text = readFileSync(`${root}deploy/${file}`, "utf8");
    // Of positions, only "-", at the end of a path, stays right when the base changes: it appends.
    expect(text, file).not.toMatch(/path: *["']?\/\S*\/(\d+|-(?=\/))(\/|["']?\s|["']?,|$)/m);
  }
});

test("no pod mounts the container runtime's socket [S-115]", () => {
  const pods = [install, uninstall, agent, dhcp].map((all) => byKind("DaemonSet", all).spec);
  const mounted = pods.flatMap(({ template: { spec } }) =>
    (spec.volumes ?? []).map(({ name }) => hostPathOf(spec, name) ?? ""),
  );
  expect(mounted).toContain("/run/plexus");
  expect(mounted.filter((path) => /containerd|crio|^\/(run)?$/.test(path))).toEqual([]);
});

test("the daemon of the plugin dhcp has four capabilities, limits, no token, and survives an upgrade of Plexus", () => {
  const { updateStrategy, template } = byKind("DaemonSet", dhcp).spec;
  expect(updateStrategy).toEqual({ type: "OnDelete" });
  const { spec } = template;
  const [container] = spec.containers;
  expect(spec).toMatchObject({ automountServiceAccountToken: false, hostNetwork: true });
  expect(spec.hostPID ?? false).toBe(false);
  expect(container.securityContext).toEqual({
    ...installSpec.containers[0].securityContext,
    capabilities: {
      drop: ["ALL"],
      add: ["SYS_ADMIN", "NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE"],
    },
  });
  const amounts = { cpu: expect.any(String), memory: expect.any(String) };
  expect(container.resources).toEqual({ requests: amounts, limits: amounts });
  expect(
    container.volumeMounts?.map(({ name, ...mount }) => [hostPathOf(spec, name), mount]),
  ).toEqual([
    ["/run/cni", { mountPath: "/run/cni" }],
    ...["/run/netns", "/var/run/netns"].map((mountPath) => {
      return ["/run/netns", { mountPath, mountPropagation: "HostToContainer", readOnly: true }];
    }),
  ]);
});

test("the daemon of the plugin dhcp gives up before Plexus ends the plugin", () => {
  const { args = [] } = byKind("DaemonSet", dhcp).spec.template.spec.containers[0];
  const [, seconds] = /^-resendtimeout=(\d+)s$/.exec(args.at(-1) ?? "") ?? [];
  expect(Number(seconds) * 1000).toBeLessThan(engineKeys.delegateTimeoutMs.default);
});

test("the CRD is structural and has the specification's names", () => {
  const crd = byKind("CustomResourceDefinition", loadManifests(crdText));
  expect(crd.metadata.name).toBe("network-attachment-definitions.k8s.cni.cncf.io");
  expect(crd.spec.names.shortNames).toEqual(["nad", "net-attach-def"]);
  const [version] = crd.spec.versions;
  expect(version.schema.openAPIV3Schema).toMatchObject({
    type: "object",
    properties: { spec: { type: "object", properties: { config: { type: "string" } } } },
  });
});
