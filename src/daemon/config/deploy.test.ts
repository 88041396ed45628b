import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseConfig } from "./parse.ts";

/** What the manifests must keep to; that a cluster takes them is e2e/cluster's business. */
const root = fileURLToPath(new URL("../../../", import.meta.url));

interface Container {
  readonly command: readonly string[];
  readonly securityContext: object;
  readonly resources: object;
  readonly volumeMounts?: readonly Mount[];
}

interface Mount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

interface PodSpec {
  readonly hostNetwork: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly priorityClassName: string;
  readonly tolerations: readonly object[];
  readonly initContainers: readonly [Container];
  readonly containers: readonly [Container];
  readonly volumes: readonly {
    readonly name: string;
    readonly hostPath?: { readonly path: string };
  }[];
}

/** Of objects of all kinds, what the tests look at. */
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data: Readonly<Record<string, string>>;
  readonly rules: readonly object[];
  readonly subjects: readonly object[];
  readonly spec: {
    readonly template: { readonly spec: PodSpec };
    readonly matchConditions: readonly [{ readonly expression: string }];
    readonly policyName: string;
    readonly names: { readonly shortNames: readonly string[] };
    readonly versions: readonly [{ readonly schema: { readonly openAPIV3Schema: object } }];
  };
}

function load(text: string): Manifest[] {
  return parseAllDocuments(text, { merge: true }).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });
}

const install = load(readFileSync(`${root}deploy/install.yaml`, "utf8"));
const uninstall = load(readFileSync(`${root}deploy/uninstall/daemonset.yaml`, "utf8"));
const crdText = readFileSync(`${root}crds/network-attachment-definitions.yaml`, "utf8");
const byKind = (kind: string, among = install): Manifest => {
  const found = among.find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`there is no ${kind}`);
  return found;
};
const installSpec = byKind("DaemonSet").spec.template.spec;
const podSpecs: [string, PodSpec][] = [
  ["plexus", installSpec],
  ["plexus-uninstall", byKind("DaemonSet", uninstall).spec.template.spec],
];

function hostPathOf(spec: PodSpec, name: string): string | undefined {
  return spec.volumes.find((volume) => volume.name === name)?.hostPath?.path;
}

function mountOf(container: Container, name: string): Mount | undefined {
  return container.volumeMounts?.find((mount) => mount.name === name);
}

const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;

/** What a kustomization makes, by kubectl. */
function kustomize(dir: string): Manifest[] {
  return load(execFileSync("kubectl", ["kustomize", `${root}deploy/${dir}`], { encoding: "utf8" }));
}

test("deploy/install.yaml is what scripts/install-manifest.ts makes of deploy/base", () => {
  const script = `${root}scripts/install-manifest.ts`;
  const result = spawnSync(process.execPath, [script, "--check"], { encoding: "utf8" });
  expect(result.stderr).toBe("");
  expect(result.status).toBe(0);
});

test("the shipped configuration is right", () => {
  const text = byKind("ConfigMap").data["config.yaml"] ?? "";
  expect(parseConfig(text, "config.yaml").nodeConf).toMatchObject({
    cniConfDir: "/etc/cni/net.d",
    binDirs: ["/opt/cni/bin"],
  });
});

test("plexusd may read pods and definitions, patch pods' status and tell events; nothing more", () => {
  expect(byKind("ClusterRole").rules).toEqual([
    {
      apiGroups: ["k8s.cni.cncf.io"],
      resources: ["network-attachment-definitions"],
      verbs: ["get", "list", "watch"],
    },
    { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
    { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
    { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
  ]);
});

test("the admission policy is about plexusd's own account", () => {
  const { name, namespace } = byKind("ServiceAccount").metadata;
  const policy = byKind("ValidatingAdmissionPolicy");
  const condition = policy.spec.matchConditions[0].expression;
  expect(condition).toContain(`'system:serviceaccount:${namespace}:${name}'`);
  expect(byKind("ValidatingAdmissionPolicyBinding").spec.policyName).toBe(policy.metadata.name);
  expect(byKind("ClusterRoleBinding").subjects).toEqual([
    { kind: "ServiceAccount", name, namespace },
  ]);
});

describe.each(podSpecs)("the pods of DaemonSet %s", (_name, spec) => {
  const containers = [...spec.initContainers, ...spec.containers];

  test("have no privilege", () => {
    expect(spec.hostPID ?? false).toBe(false);
    expect(spec.hostIPC ?? false).toBe(false);
    for (const { securityContext } of containers) {
      expect(securityContext).toEqual({
        runAsUser: 0,
        runAsGroup: 0,
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
        seccompProfile: { type: "RuntimeDefault" },
      });
    }
  });

  test("mount host directories of few names, under the same names", () => {
    for (const { name, mountPath } of containers.flatMap((each) => each.volumeMounts ?? [])) {
      const path = hostPathOf(spec, name) ?? mountPath;
      expect(mountPath.replace("/var/run", "/run")).toBe(path);
    }
    const hostPaths = spec.volumes.flatMap((volume) => volume.hostPath?.path ?? []);
    const allowed =
      /^\/(run\/plexus|var\/lib\/plexus|etc\/cni\/(plexus\/)?net\.d|opt\/cni\/bin|run\/k8s\.cni\.cncf\.io)$/;
    expect(hostPaths.filter((path) => !allowed.test(path))).toEqual([]);
  });

  test("run on every node, first and last, with requests and no memory limit", () => {
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

test("plexusd cannot write where plugins are executed from", () => {
  expect(mountOf(installSpec.containers[0], "cni-bin")?.readOnly).toBe(true);
});

test("the CRD is structural and has the specification's names", () => {
  const crd = byKind("CustomResourceDefinition", load(crdText));
  expect(crd.metadata.name).toBe("network-attachment-definitions.k8s.cni.cncf.io");
  expect(crd.spec.names.shortNames).toEqual(["nad", "net-attach-def"]);
  const [version] = crd.spec.versions;
  expect(version.schema.openAPIV3Schema).toMatchObject({
    type: "object",
    properties: { spec: { type: "object", properties: { config: { type: "string" } } } },
  });
});

describe.runIf(hasKubectl)("kustomize", () => {
  test("makes deploy/install.yaml of deploy/base", () => {
    const key = (each: Manifest): string => `${each.kind}/${each.metadata.name}`;
    const sorted = (all: Manifest[]) => all.toSorted((a, b) => key(a).localeCompare(key(b)));
    expect(sorted(kustomize("base"))).toEqual(sorted(install));
  });

  test.each(readdirSync(`${root}deploy/overlays`))(
    "overlay %s keeps its paths together",
    (name) => {
      const all = kustomize(`overlays/${name}`);
      const text = byKind("ConfigMap", all).data["config.yaml"] ?? "";
      const { nodeConf } = parseConfig(text, name);
      const { spec } = byKind("DaemonSet", all).spec.template;
      const [plexusd] = spec.containers;
      const [installer] = spec.initContainers;
      const confDirs = [hostPathOf(spec, "cni-conf"), mountOf(plexusd, "cni-conf")?.mountPath];
      expect(new Set(confDirs)).toEqual(new Set([nodeConf.cniConfDir]));
      const binMounts = [plexusd, installer].map((each) => mountOf(each, "cni-bin")?.mountPath);
      const binDirs = [hostPathOf(spec, "cni-bin"), ...binMounts, installer.command.at(-1)];
      expect(new Set(binDirs)).toEqual(new Set(nodeConf.binDirs));
    },
  );

  test.each(["k3s", "openshift"])("overlay %s uninstalls where it installs", (name) => {
    const text = byKind("ConfigMap", kustomize(`overlays/${name}`)).data["config.yaml"] ?? "";
    const { nodeConf } = parseConfig(text, name);
    const uninstaller = kustomize(`overlays/${name}/uninstall`);
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
});
