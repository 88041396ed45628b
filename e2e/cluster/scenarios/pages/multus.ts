import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { buildMultusInstallers, findMultus, multusSource } from "../../../../bench/peers/multus.ts";
import { waitUntil } from "../../../support/wait.ts";
import type { Cluster } from "../../kubernetes/cluster.ts";
import { withRoot, writeImage } from "../../machine/images.ts";

/** The manifests that Multus's repository has for its two forms. */
const manifests = {
  thin: "deployments/multus-daemonset.yml",
  thick: "deployments/multus-daemonset-thick.yml",
} as const;

export type MultusForm = keyof typeof manifests;

/** Makes nodes know Multus's images by the names in its manifests, with the programs that they have. */
export async function loadMultusImages(cluster: Cluster, nodes = cluster.nodes): Promise<void> {
  const multus = await findMultus();
  if (multus === undefined) throw new Error("Multus cannot be built: see the message above");
  const installers = await buildMultusInstallers();
  const bin = "usr/src/multus-cni/bin";
  // The daemon looks up its user.
  const files = {
    "etc/passwd": "/etc/passwd",
    thin_entrypoint: join(installers, "thin_entrypoint"),
    install_multus: join(installers, "install_multus"),
    [`${bin}/install_multus`]: join(installers, "install_multus"),
    [`${bin}/passthru`]: join(installers, "passthru-cni"),
    [`${bin}/multus`]: multus.thin,
    [`${bin}/multus-shim`]: multus.shim,
    [`${bin}/multus-daemon`]: multus.daemon,
  };
  const name = "ghcr.io/k8snetworkplumbingwg/multus-cni";
  const archive = join(cluster.directory, "multus.tar");
  const names = { reference: `${name}:snapshot`, alias: `${name}:snapshot-thick` };
  await withRoot(files, async (root) => {
    // The runtime passes namespaces below /var/run; the manifest mounts /run.
    await mkdir(join(root, "var"));
    await symlink("/run", join(root, "var/run"));
    return writeImage({ ...names, root, archive });
  });
  for (const node of nodes) await node.loadImage(archive);
}

/** Applies Multus's own manifest, and waits until Multus attaches the nodes' pods. */
export async function installMultus(cluster: Cluster, form: MultusForm): Promise<void> {
  await cluster.kubectl("apply", "--filename", join(await multusSource(), manifests[form]));
  const daemonSet = "daemonset/kube-multus-ds";
  const rollout = ["rollout", "status", daemonSet, "--timeout=240s"];
  await cluster.kubectl("--namespace=kube-system", ...rollout);
  await waitUntil(
    "Multus has written the configuration of every node",
    async () => {
      const list = cluster.nodes.map(({ host }) => host.run(["ls", "/etc/cni/net.d"]));
      if ((await Promise.all(list)).every((names) => names.includes("00-multus.conf"))) return true;
      throw new Error(await cluster.kubectl("--namespace=kube-system", "logs", daemonSet));
    },
    { intervalMs: 200 },
  );
}
