import { join } from "node:path";
import { DevicePlugin } from "../devices/device-plugin.ts";
import { DraDriver } from "../devices/dra-driver.ts";
import { addLinks, linkSlice, links, offerDevices, removeLinks } from "../devices/link-devices.ts";
import type { Scene } from "../target/scene.ts";
import { ownCluster } from "../target/target.ts";

/** The names that docs/user/networks.md uses. */
const resourceName = "vendor.example/vf";
const claimedName = "vendor.example/claimed-vf";
const driverName = "vf.vendor.example";

const [requested, claimed] = links as [string, string];

/** Offers links as the devices of the page's recipes: one from a device plugin, one from a driver for claims. */
export async function startPageDevices(scene: Scene): Promise<AsyncDisposable> {
  const { node } = ownCluster(scene);
  const kubeletDir = join(node.root, "var/lib/kubelet");
  await addLinks(scene);
  const plugin = new DevicePlugin({ kubeletDir, resourceName, ids: [requested] });
  await offerDevices(scene, plugin);
  const driver = new DraDriver({
    name: driverName,
    kubeletDir,
    allocated: async () => [{ pool: node.name, device: claimed }],
  });
  await driver.start();
  const slice = { driver: driverName, nodeName: node.name, resourceName: claimedName };
  await scene.target.apply(linkSlice(slice, [claimed]));
  return {
    async [Symbol.asyncDispose]() {
      await scene.target.kubectl("delete", `resourceslices/${driverName}`);
      await driver[Symbol.asyncDispose]();
      plugin[Symbol.dispose]();
      await removeLinks(scene);
    },
  };
}
