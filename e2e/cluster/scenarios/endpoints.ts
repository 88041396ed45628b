import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { repositoryRoot } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { prepareTools } from "../kubernetes/tools.ts";
import { builtModule } from "../machine/go-module.ts";
import { writeImageOnBusybox } from "../machine/images.ts";
import { edit, enableHotPlug } from "./hot-plug.ts";
import { home } from "./target/objects.ts";
import { kustomize } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, ownCluster, skipGiven, type Target } from "./target/target.ts";

const system = "--namespace=kube-system";
const component = join(repositoryRoot, "deploy/components/endpoints");
const service = "db-red";
const fullName = `${service}.${home}.svc.cluster.local`;

/** How soon an address leaves the slices. */
const leaving = { timeoutMs: 2000, intervalMs: 50 };

/** Services with the addresses of a network. */
export function endpointScenarios(scene: () => Scene): void {
  describe("a headless Service of a network", () => {
    test("resolves to the addresses of its ready pods there, also when another replica takes over [S-216] [S-217]", async (context) => {
      skipGiven(context);
      const { target } = scene();
      await enableHotPlug(target);
      const nameServer = await startNameServer(ownCluster(scene()));
      await installEndpoints(target);
      const annotations = { "plexus.dev/network": `${home}/red`, "plexus.dev/selector": "app=db" };
      const spec = { clusterIP: "None", ports: [{ name: "sql", port: 5432, targetPort: "sql" }] };
      const metadata = { name: service, namespace: home, annotations };
      await target.apply({ apiVersion: "v1", kind: "Service", metadata, spec });
      onTestFinished(async () => void (await scene().kubectl("delete", "service", service)));

      await scene().startPod("client");
      const names = ["db-1", "db-2", "db-3"];
      await Promise.all(names.map((name) => startDatabase(scene(), name)));
      const ips = await Promise.all(names.map((name) => redAddress(scene(), name)));
      const resolved = async (): Promise<string> => {
        const output = await scene().exec("client", "nslookup", "-type=a", fullName, nameServer);
        const [, answers = ""] = output.split(/\n\n/);
        return [...answers.matchAll(/^Address: (\S+)$/gm)]
          .map(([, ip]) => ip)
          .toSorted()
          .join();
      };
      const isResolved = (...indexes: number[]) => {
        const expected = indexes
          .map((index) => ips[index])
          .toSorted()
          .join();
        return async () => (await resolved()) === expected;
      };
      await eventually("the Service resolves to all", isResolved(0, 1, 2));

      await scene().exec("db-3", "touch", "/tmp/unready");
      await scene().kubectl("wait", "--for=condition=Ready=false", "pod/db-3", "--timeout=60s");
      await waitUntil("db-3, which is not ready, has left", isResolved(0, 1), leaving);
      await edit(scene(), "db-2", []);
      await eventually(
        "db-2 is unplugged",
        async () => (await scene().networkStatus("db-2")).length === 1,
      );
      await waitUntil("db-2 has left", isResolved(0), leaving);

      const before = await holder(target);
      await target.kubectl(system, "delete", "pod", before, "--force", "--grace-period=0");
      await scene().exec("db-3", "rm", "/tmp/unready");
      await eventually("the other replica adds db-3", isResolved(0, 2));
      expect(await holder(target)).not.toBe(before);

      await target.kubectl(system, "scale", "deployment/plexus-endpoints", "--replicas=0");
      // Until they have ended, one still writes.
      const replicas = ["pod", "--selector=app.kubernetes.io/component=endpoints"];
      await target.kubectl(system, "wait", "--for=delete", ...replicas, "--timeout=60s");
      await scene().deletePods("db-3");
      expect(await resolved()).toBe([ips[0], ips[2]].toSorted().join());
      await refusesForeignSlices(target);
    });
  });
}

async function startDatabase(scene: Scene, name: string): Promise<void> {
  const readinessProbe = {
    exec: { command: ["test", "!", "-e", "/tmp/unready"] },
    periodSeconds: 1,
    failureThreshold: 1,
  };
  const container = { ports: [{ name: "sql", containerPort: 5432 }], readinessProbe };
  await scene.createPod(name, { networks: "red", container });
  await scene.kubectl("label", "pod", name, "app=db");
  await scene.waitForPod(name);
}

async function redAddress(scene: Scene, name: string): Promise<string> {
  const status = await scene.networkStatus(name);
  return status.find((each) => each.name === `${home}/red`)?.ips?.[0] ?? "none";
}

/** The pod that holds the lease. */
function holder(target: Target): Promise<string> {
  const path = "--output=jsonpath={.spec.holderIdentity}";
  return target.kubectl(system, "get", "lease", "plexus-endpoints", path);
}

/** The controller's account may neither delete slices of others nor create slices in the name of others. */
async function refusesForeignSlices(target: Target): Promise<void> {
  const as = "--as=system:serviceaccount:kube-system:plexus-endpoints";
  const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  await using folder = await mkdtempDisposable(join(tmpdir(), "plexus-slice-"));
  const file = join(folder.path, "slice.json");
  const type = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4" };
  await writeFile(file, JSON.stringify({ ...type, metadata: { name: "false" }, endpoints: [] }));
  for (const request of [
    ["delete", "--raw", `${slices}/kubernetes`],
    ["create", "--raw", slices, "--filename", file],
  ]) {
    const { exitCode, stderr } = await target.tryKubectl(as, ...request);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("managed-by is plexus.dev")]);
  }
}

/** Applies deploy/components/endpoints, and waits for both replicas. */
async function installEndpoints(target: Target): Promise<void> {
  const dist = join(repositoryRoot, "dist");
  await mkdir(dist, { recursive: true });
  await using folder = await mkdtempDisposable(join(dist, ".endpoints-"));
  const kustomization = { components: [relative(folder.path, component)] };
  await writeFile(join(folder.path, "kustomization.yaml"), JSON.stringify(kustomization));
  const manifests = await kustomize(target, relative(repositoryRoot, folder.path));
  onTestFinished(async () => {
    await target.kubectl("delete", "--ignore-not-found", `--filename=${component}/rbac.yaml`);
    for (const kind of ["validatingadmissionpolicy", "validatingadmissionpolicybinding"])
      await target.kubectl("delete", kind, "plexus-endpoints");
    await target.kubectl(system, "delete", "deployment", "plexus-endpoints");
    await target.kubectl(
      system,
      "wait",
      "--for=delete",
      "pods",
      "--selector=app.kubernetes.io/component=endpoints",
      "--timeout=60s",
    );
  });
  await target.apply(manifests);
  await target.kubectl(
    system,
    "rollout",
    "status",
    "deployment/plexus-endpoints",
    "--timeout=240s",
  );
}

/** Starts CoreDNS in a pod, with nothing but the plugin for Kubernetes. @returns its address */
async function startNameServer(cluster: Cluster): Promise<string> {
  const reference = "plexus.dev/e2e/coredns:1";
  const plugins = ["errors", "kubernetes"].map(
    (name) => `_ "github.com/coredns/coredns/plugin/${name}"`,
  );
  const [{ busybox }, built] = await Promise.all([
    prepareTools(),
    builtModule({
      name: "coredns",
      module: "github.com/coredns/coredns@v1.12.4",
      programs: { coredns: "." },
      edit: `printf '%s\\n' 'package plugin' 'import (' '${plugins.join("' '")}' ')' > core/plugin/zplugin.go`,
    }),
  ]);
  await using directory = await mkdtempDisposable(join(tmpdir(), "plexus-coredns-"));
  await writeFile(
    join(directory.path, "Corefile"),
    ".:53 {\n  errors\n  kubernetes cluster.local\n}\n",
  );
  const archive = join(directory.path, "coredns.tar");
  const files = { coredns: join(built, "coredns"), Corefile: join(directory.path, "Corefile") };
  await cluster.node.loadImage(await writeImageOnBusybox(busybox, { reference, archive, files }));
  const name = "plexus-e2e-names";
  const rbac = "rbac.authorization.k8s.io";
  const roleRef = { apiGroup: rbac, kind: "ClusterRole", name };
  const rule = (apiGroups: string[], resources: string[]) => ({
    apiGroups,
    resources,
    verbs: ["list", "watch"],
  });
  await cluster.apply({
    apiVersion: "v1",
    kind: "List",
    items: [
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: home } },
      {
        ...{ apiVersion: `${rbac}/v1`, kind: "ClusterRole", metadata: { name } },
        rules: [
          rule([""], ["services", "pods", "namespaces", "endpoints"]),
          rule(["discovery.k8s.io"], ["endpointslices"]),
        ],
      },
      {
        ...{ apiVersion: `${rbac}/v1`, kind: "ClusterRoleBinding", metadata: { name }, roleRef },
        subjects: [{ kind: "ServiceAccount", name, namespace: home }],
      },
      {
        ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: home } },
        spec: {
          serviceAccountName: name,
          terminationGracePeriodSeconds: 1,
          containers: [
            { name: "coredns", image: reference, command: ["/coredns", "-conf", "/Corefile"] },
          ],
        },
      },
    ],
  });
  onTestFinished(async () => {
    await cluster.kubectl("delete", "clusterrole,clusterrolebinding", name);
    await cluster.kubectl("delete", `--namespace=${home}`, "serviceaccount", name);
  });
  await cluster.kubectl(
    "wait",
    `--namespace=${home}`,
    "--for=condition=Ready",
    `pod/${name}`,
    "--timeout=240s",
  );
  return cluster.kubectl(
    "get",
    "pod",
    `--namespace=${home}`,
    name,
    "--output=jsonpath={.status.podIP}",
  );
}
