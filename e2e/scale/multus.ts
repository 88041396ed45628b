import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findMultus } from "../../bench/peers/multus.ts";
import { addresses } from "../cluster/kubernetes/addresses.ts";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { run } from "../cluster/machine/run.ts";
import { startMultusDaemon } from "../support/multus-daemon.ts";
import type { Agent } from "./api-server.ts";
import { pluginType, podName } from "./objects.ts";

const token = "/run/secrets/kubernetes.io/serviceaccount";
/** A file system like its container's. */
const container = `mount -t tmpfs tmpfs /run && mkdir -p ${token} && cp "$0"/* ${token} && exec "$@"`;
const env = {
  KUBERNETES_SERVICE_HOST: addresses.controlPlane,
  KUBERNETES_SERVICE_PORT: `${addresses.apiServerPort}`,
};
const primary = { cniVersion: "1.0.0", name: "primary", plugins: [{ type: pluginType }] };
const result = {
  ...{ cniVersion: "1.0.0", interfaces: [{ name: "eth0", sandbox: "/" }] },
  ips: [{ address: "10.0.0.2/16", interface: 0 }],
};

/** Prepares Multus for these nodes; it ends with this process. undefined if it cannot be built here. */
export async function prepareMultus(
  cluster: Cluster,
  nodes: readonly string[],
  podsPerNode: number,
): Promise<Agent | undefined> {
  const multus = await findMultus();
  if (multus === undefined) return undefined;
  const { pid } = cluster.controlPlane.host;
  const path = (name: string): string => join(cluster.directory, "multus", name);
  for (const each of ["token", "primary"]) await mkdir(path(each), { recursive: true });
  await writeFile(path("token/token"), await createToken(cluster));
  await cp(join(cluster.directory, "pki/ca.crt"), path("token/ca.crt"));
  await writeFile(path("primary/00-primary.conflist"), JSON.stringify(primary));
  const plugin = `#!/bin/sh\necho '${JSON.stringify(result)}'\n`;
  await writeFile(path(pluginType), plugin, { mode: 0o755 });
  const inside = ["--pdeathsig=KILL", "nsenter", `--target=${pid}`, "-n", "unshare", "--mount"];
  const shell = ["sh", "-c", container, path("token"), multus.daemon];
  const start = (nodeName: string): Promise<unknown> => {
    const [dir, socketDir] = [path(nodeName), path(`${nodeName}/run`)];
    const places = { socketDir, daemonSocketDir: socketDir, cniDir: `${dir}/cni` };
    const config = { ...places, binDir: path(""), logLevel: "error" };
    const options = { dir, primaryDir: path("primary"), config, nodeName, env };
    return startMultusDaemon({ command: ["setpriv", ...inside, ...shell], ...options });
  };
  const attach = async (node: string, nth: number): Promise<void> => {
    const { namespace, name } = podName(node, nth);
    const input = await readFile(path(`${node}/net.d/00-multus.conf`), "utf8");
    const call = { CNI_COMMAND: "ADD", CNI_CONTAINERID: name, CNI_IFNAME: "eth0" };
    const places = { CNI_PATH: path(""), CNI_NETNS: `/proc/${pid}/ns/net` };
    const pod = `K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name}`;
    const args = `IgnoreUnknown=1;${pod};K8S_POD_INFRA_CONTAINER_ID=${name}`;
    await run([multus.shim], { input, env: { ...call, ...places, CNI_ARGS: args } });
  };
  const numbers = Array.from({ length: podsPerNode }, (_, n) => n);
  return {
    start: () => Promise.all(nodes.map(start)),
    attach: () => Promise.all(nodes.flatMap((node) => numbers.map((n) => attach(node, n)))),
  };
}

/** What it may do makes no difference here. */
async function createToken(cluster: Cluster): Promise<string> {
  const [namespace, admin] = ["--namespace=kube-system", "--clusterrole=cluster-admin"];
  const account = "--serviceaccount=kube-system:multus";
  await cluster.kubectl("create", "serviceaccount", "multus", namespace);
  await cluster.kubectl("create", "clusterrolebinding", "multus", admin, account);
  return cluster.kubectl("create", "token", "multus", namespace);
}
