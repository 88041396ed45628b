import { join } from "node:path";
import { DevicePlugin } from "../devices/device-plugin.ts";
import { DraDriver } from "../devices/dra-driver.ts";
import { addLinks, links, offerDevices, removeLinks } from "../devices/link-devices.ts";
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
  await scene.target.apply(slice(node.name));
  return {
    async [Symbol.asyncDispose]() {
      await scene.target.kubectl("delete", `resourceslices/${driverName}`);
      await driver[Symbol.asyncDispose]();
      plugin[Symbol.dispose]();
      await removeLinks(scene);
    },
  };
}

function slice(nodeName: string): object {
  const attributes = {
    "k8s.cni.cncf.io/deviceID": { string: claimed },
    "k8s.cni.cncf.io/resourceName": { string: claimedName },
  };
  const pool = { name: nodeName, generation: 1, resourceSliceCount: 1 };
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: { name: driverName },
    spec: { driver: driverName, nodeName, pool, devices: [{ name: claimed, attributes }] },
  };
}
