import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { dpDeviceInfoPath } from "#npwg/device-info.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { home } from "../target/objects.ts";
import { plexusctl, waitForPlexus } from "../target/plexus.ts";
import type { PodOptions, Scene } from "../target/scene.ts";
import { isGiven, ownCluster, skipGiven } from "../target/target.ts";
import { DevicePlugin } from "./device-plugin.ts";
import {
  addLinks,
  addressesOf,
  linkNetwork,
  links,
  offerDevices,
  recordOf,
  removeLinks,
} from "./link-devices.ts";

const inSystem = ["--namespace=kube-system"];
const resourceName = "plexus.example/link";
const deviceInfo = '{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:02.1"}}';

/** Two devices in the pod's one container. */
const twoDevices: PodOptions = {
  networks: "link-one,link-two",
  container: { resources: { limits: { [resourceName]: "2" } } },
};

/** Networks by devices that the real kubelet allocates, by a device plugin that is registered with it. */
export function deviceScenarios(scene: () => Scene): void {
  describe("a device plugin's devices", () => {
    let devicePlugin: DevicePlugin | undefined;

    beforeEach(skipGiven);

    beforeAll(async () => {
      if (isGiven) return;
      const { node } = ownCluster(scene());
      await addLinks(scene());
      for (const name of ["link-one", "link-two"])
        await scene().target.apply(linkNetwork(name, resourceName));
      const kubeletDir = join(node.root, "var/lib/kubelet");
      devicePlugin = new DevicePlugin({ kubeletDir, resourceName, ids: links });
      await offerDevices(scene(), devicePlugin);
      await scene().remember();
    });

    afterAll(async () => {
      devicePlugin?.[Symbol.dispose]();
      if (isGiven) return;
      await removeLinks(scene());
      await scene().remember();
    });

    test("are moved into the pod, one per network in order, and back after the kubelet restarts [D-3] [D-7] [D-11]", async () => {
      const addresses = await addressesOf(scene());
      await scene().startPod("devices", twoDevices);
      const recorded = (await recordOf(scene(), "devices")).attachments.slice(1);
      const ids = recorded.map(({ device }) => device?.id ?? "");
      expect(ids).toEqual(ids.toSorted());
      const source = "the kubelet's pod-resources API";
      expect(recorded).toMatchObject([
        { displayName: `${home}/link-one`, device: { resourceName, source } },
        { displayName: `${home}/link-two`, device: { resourceName, source } },
      ]);
      const shown = await plexusctl(scene().target, "explain", `${home}/devices`);
      for (const id of ids) expect(shown).toContain(` ${id} `);
      const [, ...macs] = (await scene().networkStatus("devices")).map(({ mac }) => mac);
      expect(macs).toEqual(ids.map((id) => addresses[id]));
      expect(await scene().exec("devices", "ip", "link", "show", "net2")).toContain(
        addresses[ids[1] ?? ""],
      );
      expect(Object.keys(await addressesOf(scene()))).not.toContain(ids[0]);
      await ownCluster(scene()).restartKubelet();
      if (devicePlugin !== undefined) await offerDevices(scene(), devicePlugin);
      await scene().deletePods("devices");
      expect(await addressesOf(scene())).toEqual(addresses);
    });

    test("are all moved into the pod by one element, each with its device information, and back", async () => {
      const addresses = await addressesOf(scene());
      const infos = links.map((deviceId) => dpDeviceInfoPath({ resourceName, deviceId }));
      const write = `mkdir -p "$(dirname "$1")"; for path; do echo '${deviceInfo}' >"$path"; done`;
      await scene().target.inNode(["sh", "-c", write, "sh", ...infos]);
      onTestFinished(async () => void (await scene().target.inNode(["rm", ...infos])));
      await scene().target.apply(linkNetwork("rails", resourceName, true));
      await scene().startPod("rails", {
        networks: "rails",
        container: { resources: { limits: { [resourceName]: "3" } } },
      });
      const [, ...entries] = await scene().networkStatus("rails");
      expect(entries).toMatchObject(
        links.map((link, index) => ({
          ...{ name: `${home}/rails`, interface: `net${index + 1}`, mac: addresses[link] },
          "device-info": JSON.parse(deviceInfo),
        })),
      );
      expect(entries).toHaveLength(links.length);
      for (const { interface: ifName, mac } of entries)
        expect(await scene().exec("rails", "ip", "link", "show", ifName)).toContain(mac);
      expect(await addressesOf(scene())).toEqual({});
      await scene().deletePods("rails");
      expect(await addressesOf(scene())).toEqual(addresses);
    });

    test("keep the pod pending if it does not request them, and an event says what to add [D-5]", async () => {
      await scene().createPod("without", { networks: "link-one" });
      const event = await scene().waitForEvent("without", "DeviceNotAllocated");
      expect(event.message).toContain(`resources.limits: ${resourceName}: "1"`);
      expect((await scene().pod("without")).status.phase).toBe("Pending");
    });

    test("are read from the kubelet's checkpoint if its socket is missing [D-13] [D-14]", async () => {
      const { node } = ownCluster(scene());
      await mountCheckpoint(scene());
      onTestFinished(async () => {
        // Applying the manifest again would keep the added fields.
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
