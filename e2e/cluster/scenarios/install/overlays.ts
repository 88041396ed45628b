import { describe, expect, onTestFinished, test } from "vitest";
import { hostLocal, list } from "../../../support/networks.ts";
import { nad } from "../../../support/node/manifests.ts";
import { addresses } from "../../kubernetes/addresses.ts";
import { otherImages, writeOtherImage } from "../target/images.ts";
import { home } from "../target/objects.ts";
import { installPlexus, kustomize, waitForPlexus } from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { ownCluster, scenariosWanted, skipGiven } from "../target/target.ts";
import { filesOfPlexus, uninstallPlexus } from "./uninstall.ts";

const [conf, bin] = ["/etc/cni/net.d", "/opt/cni/bin"];
const apiServer = `${addresses.controlPlane}:${addresses.apiServerPort}`;
const k3s = "/var/lib/rancher/k3s";
const microk8s = "/var/snap/microk8s";

/** Gives the node's directories of CNI the names that a distribution has for them. */
const bind = (from: string, to: string): string => `mkdir -p ${to}; mount --bind ${from} ${to}\n`;

/** What makes the node like one of a distribution, and what makes it as it was. */
const nodes: Readonly<Record<string, readonly [make: string, undo: string]>> = {
  // Its plugins are links to a directory that no container mounts.
  k3s: [
    `mkdir -p ${k3s}/data/release; cp ${bin}/* ${k3s}/data/release
    for each in ${bin}/*; do ln -sf "${k3s}/data/release/\${each##*/}" "$each"; done
    ${bind(conf, `${k3s}/agent/etc/cni/net.d`)}${bind(bin, `${k3s}/data/cni`)}`,
    `umount ${k3s}/agent/etc/cni/net.d ${k3s}/data/cni
    cp --remove-destination ${k3s}/data/release/* ${bin}; rm -r ${k3s}`,
  ],
  microk8s: [
    `mkdir -p ${microk8s}/8000; ln -s 8000 ${microk8s}/current
    ${bind(conf, `${microk8s}/current/args/cni-network`)}${bind(bin, `${microk8s}/current/opt/cni/bin`)}`,
    `umount ${microk8s}/current/args/cni-network ${microk8s}/current/opt/cni/bin; rm -r ${microk8s}`,
  ],
  gke: [bind(bin, "/home/kubernetes/bin"), "umount /home/kubernetes/bin; rm -r /home/kubernetes"],
  // On this node too, /etc/cni and /opt/cni are separate mounts.
  bottlerocket: ["rm -rf /etc/plexus/*", "true"],
  // Its API server's certificate has this name too.
  talos: [
    `sysctl -w net.ipv4.conf.all.route_localnet=1
    nft 'table ip kubeprism {
      chain output {
        type nat hook output priority -100
        ip daddr 127.0.0.1 tcp dport 7445 dnat to ${apiServer}
      }
      chain leave {
        type nat hook postrouting priority 100
        ip saddr 127.0.0.1 ip daddr ${addresses.controlPlane} masquerade
      }
    }'`,
    "nft delete table ip kubeprism; sysctl -w net.ipv4.conf.all.route_localnet=0",
  ],
  kubespray: [`chown 997 ${conf} ${bin}`, `chown 0 ${conf} ${bin}`],
};

/** Those that share the least: PLEXUS_E2E_SCENARIOS=fixed leaves the others out. */
const fixed = ["k3s", "talos"];

const referencePlugins = "deploy/overlays/reference-plugins";

/** The overlays of distributions, on a node with their directories, and that for nodes without plugins. */
export function overlayScenarios(scene: () => Scene): void {
  describe("the overlays of distributions", () => {
    test("install Plexus in other directories, attach a pod, and restore the node", async (context) => {
      skipGiven(context);
      const { target } = scene();
      await uninstallPlexus(target);
      onTestFinished(() => installPlexus(target));
      for (const [name, [make, undo]] of Object.entries(nodes)) {
        if (scenariosWanted === "fixed" && !fixed.includes(name)) continue;
        await target.inNode(["sh", "-euxc", make]);
        await useOverlay(scene(), name);
        await target.inNode(["sh", "-euxc", undo]);
      }
    });
  });

  test("the reference plugins that the node lacks are installed, others stay, and uninstalling keeps all", async (context) => {
    skipGiven(context);
    const { target } = scene();
    const { node, directory } = ownCluster(scene());
    const installed = `${bin}/.plexus-reference-plugins`;
    const listPlugins = async (): Promise<string[]> =>
      (await target.inNode(["sh", "-c", `cd ${bin} && sha256sum $(ls -A)`])).trim().split("\n");
    await target.inNode(["mv", `${bin}/macvlan`, "/root/macvlan"]);
    onTestFinished(async () => {
      await target.inNode(["mv", "/root/macvlan", `${bin}/macvlan`]);
      await target.inNode(["rm", "-f", installed]);
      await installPlexus(target);
    });
    const before = (await listPlugins()).filter((line) => !/ plexus$/.test(line));
    await node.loadImage(await writeOtherImage("plugins", directory));
    await target.apply(await kustomize(target, referencePlugins, otherImages.plugins));
    await waitForPlexus(target);
    expect(await listPlugins()).toEqual(expect.arrayContaining(before));

    const macvlan = { type: "macvlan", master: "net0", mode: "bridge", ipam: hostLocal(77) };
    await target.apply(nad("shared", list("shared", macvlan), { namespace: home }));
    await scene().startPod("shared", { networks: "shared" });
    expect(Object.keys(await scene().interfaces("shared"))).toEqual(["lo", "eth0", "net1"]);
    await scene().deletePods("shared");
    await scene().kubectl("delete", "network-attachment-definition", "shared");
    await scene().waitForNothingLeft();

    const from = { plexus: referencePlugins, uninstaller: "deploy/uninstall" };
    await uninstallPlexus(target, from);
    const after = await listPlugins();
    const own = (await target.inNode(["cat", installed])).trim().split("\n");
    expect(own).toEqual([expect.stringMatching(/ macvlan$/)]);
    expect(after).toEqual(expect.arrayContaining([...before, ...own]));
    // The list itself.
    expect(after).toHaveLength(before.length + own.length + 1);
  });
}

async function useOverlay(scene: Scene, name: string): Promise<void> {
  const { target } = scene;
  const overlay = `deploy/overlays/${name}`;
  await target.apply(await kustomize(target, overlay));
  await waitForPlexus(target);
  await scene.startAttached(`on-${name}`);
  await scene.deletePods(`on-${name}`);
  await uninstallPlexus(target, { plexus: overlay, uninstaller: `${overlay}/uninstall` });
  expect(await filesOfPlexus(target), name).toEqual([]);
}
