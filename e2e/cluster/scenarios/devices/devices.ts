// SPDX-License-Identifier: Apache-2.0

import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { repositoryRoot } from "../../../support/paths.ts";
import { waitUntil } from "../../../support/wait.ts";
import { home, networkStatus } from "../target/objects.ts";
import { plexusctl, waitForPlexus } from "../target/plexus.ts";
import type { PodOptions, Scene } from "../target/scene.ts";
import { isGiven, ownCluster, ownOnly } from "../target/target.ts";
import { DevicePlugin } from "./device-plugin.ts";
import { addLinks, addressesOf, linkNetwork, recordOf, removeLinks } from "./link-devices.ts";

const inSystem = ["--namespace=kube-system"];
const resourceName = "plexus.example/link";
const links = ["dev-a", "dev-b", "dev-c"];

/** The overlay, in which other runtimes than containerd have another socket. */
const sandboxes = join(repositoryRoot, "deploy/overlays/sandboxes");

/** Two devices in the pod's one container. */
const twoDevices: PodOptions = {
  networks: "link-one,link-two",
  container: { resources: { limits: { [resourceName]: "2" } } },
};

/** Networks by devices that the real kubelet allocates, by a device plugin that is registered with it. */
export function deviceScenarios(scene: () => Scene): void {
  describe("a device plugin's devices", () => {
    let devicePlugin: DevicePlugin | undefined;

    beforeEach((context) => {
      if (isGiven) context.skip(ownOnly);
    });

    beforeAll(async () => {
      if (isGiven) return;
      const { node } = ownCluster(scene());
      await addLinks(scene(), links);
      for (const name of ["link-one", "link-two"])
        await scene().target.apply(linkNetwork(name, resourceName));
      devicePlugin = new DevicePlugin({
        kubeletDir: join(node.root, "var/lib/kubelet"),
        resourceName,
        ids: links,
      });
      await offerDevices(scene(), devicePlugin);
      await scene().remember();
    });

    afterAll(async () => {
      devicePlugin?.[Symbol.dispose]();
      if (isGiven) return;
      await removeLinks(scene(), links);
      await scene().remember();
    });

    test("are moved into the pod, one for each network in order, and back after a restart of the kubelet [D-3] [D-7] [D-11]", async () => {
      const addresses = await addressesOf(scene(), links);
      const pod = await scene().startPod("devices", twoDevices);
      const shown = await plexusctl(scene().target, "devices", `${home}/devices`);
      const rows = [...shown.matchAll(/^(dev-\S+) +(\S+) +(\S+) \((\S+)\) +(.+)$/gm)];
      expect(
        rows.map(([, , resource, network, ifName, source]) => [resource, network, ifName, source]),
      ).toEqual(
        ["one", "two"].map((n, i) => [
          resourceName,
          `${home}/link-${n}`,
          `net${i + 1}`,
          "the kubelet's pod-resources API",
        ]),
      );
      const ids = rows.map(([, id = ""]) => id);
      expect(ids).toEqual(ids.toSorted());
      expect(
        networkStatus(pod)
          .slice(1)
          .map(({ mac }) => mac),
      ).toEqual(ids.map((id) => addresses[id]));
      expect(await scene().exec("devices", "ip", "link", "show", "net2")).toContain(
        addresses[ids[1] ?? ""],
      );
      expect(Object.keys(await addressesOf(scene(), links))).not.toContain(ids[0]);
      await ownCluster(scene()).restartKubelet();
      await offerDevices(scene(), devicePlugin);
      await scene().deletePods("devices");
      expect(await addressesOf(scene(), links)).toEqual(addresses);
    });

    test("that the pod has not requested are an error that says so [D-5]", async () => {
      await scene().createPod("without", { networks: "link-one" });
      const event = await scene().waitForEvent("without", "DeviceNotAllocated");
      expect(event.message).toContain(`resources.limits: ${resourceName}: "1"`);
      expect((await scene().pod("without")).status.phase).toBe("Pending");
    });

    test("are found in the kubelet's checkpoint where its socket is missing [D-13] [D-14]", async () => {
      const { node } = ownCluster(scene());
      await mountCheckpoint(scene());
      onTestFinished(async () => {
        // To apply the manifest again would leave what it does not know.
        await scene().target.kubectl(...inSystem, "rollout", "undo", "daemonset/plexus");
        await waitForPlexus(scene().target);
      });
      const socket = join(node.root, "var/lib/kubelet/pod-resources/kubelet.sock");
      await rename(socket, `${socket}.away`);
      onTestFinished(async () => rename(`${socket}.away`, socket));
      await scene().startPod("by-checkpoint", twoDevices);
      const { attachments } = await recordOf(scene(), "by-checkpoint");
      const sources = attachments.flatMap(({ device }) => device?.source ?? []);
      expect(sources).toEqual(Array(2).fill("the kubelet's device checkpoint"));
    });
  });

  test("the container runtime's list of sandboxes is kept for plexusd", async (context) => {
    if (isGiven) context.skip(ownOnly);
    const { target } = scene();
    // Before the list, which is made twice a minute.
    await scene().startPod("listed", { networks: "red" });
    const { runtimeSocket } = ownCluster(scene()).node;
    const overlay = await target.kubectl("kustomize", sandboxes);
    await target.apply(overlay.replaceAll("/run/containerd/containerd.sock", runtimeSocket));
    try {
      const { containerId } = await recordOf(scene(), "listed");
      const listed = (): Promise<string> => target.inNode(["cat", "/run/plexus/sandboxes.json"]);
      const isListed = async (): Promise<boolean> =>
        (await listed().catch(() => "")).includes(containerId);
      await waitUntil("the sandbox is listed", isListed, { timeoutMs: 60_000, intervalMs: 500 });
    } finally {
      await target.kubectl("delete", "--kustomize", sandboxes);
      await target.inNode(["rm", "-f", "/run/plexus/sandboxes.json"]);
    }
  });
}

/** Has the kubelet know the plugin's devices, and waits until the scheduler does. */
async function offerDevices(scene: Scene, plugin: DevicePlugin | undefined): Promise<void> {
  await plugin?.start();
  const path = `--output=jsonpath={.status.allocatable.${resourceName.replaceAll(".", "\\.")}}`;
  const read = ["get", "node", scene.target.nodeName, path] as const;
  await waitUntil(
    "the node offers the devices",
    async () => (await scene.target.kubectl(...read)) === `${links.length}`,
    { timeoutMs: 60_000, intervalMs: 300 },
  );
}

/** deploy/components/device-checkpoint on the DaemonSet that runs. */
async function mountCheckpoint(scene: Scene): Promise<void> {
  const path = "deploy/components/device-checkpoint/kustomization.yaml";
  const component = parse(await readFile(join(repositoryRoot, path), "utf8"));
  const patch = JSON.stringify(parse(component.patches[0].patch));
  const daemonSet = [...inSystem, "patch", "daemonset", "plexus"];
  await scene.target.kubectl(...daemonSet, "--type=strategic", `--patch=${patch}`);
  await waitForPlexus(scene.target);
}
