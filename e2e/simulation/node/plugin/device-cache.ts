import { world } from "../../world/world.ts";
import { madeBy, type PluginCall, pluginError } from "./call.ts";

const cacheDir = "/var/lib/cni/sriov";

function cachePath({ containerId, ifName }: PluginCall): string {
  return `${cacheDir}/${containerId}-${ifName}`;
}

/**
 * As `sriov`: configures the device of the call, and keeps a file that says which one it was. The
 * file comes first: without it the real DEL leaves what a killed ADD has configured.
 * @throws CniError without a device, and for one that is in a namespace; Error of the disk
 */
export function claimDevice(call: PluginCall): void {
  const { disk, kernel, note } = world();
  const { deviceID: device } = call.conf;
  if (device === undefined) throw pluginError("no VF pci addr");
  if (kernel.isDeviceInside(device)) throw pluginError(`${device} is allocated`);
  if (!disk.exists(cacheDir)) disk.mkdir(cacheDir);
  disk.writeFile(cachePath(call), device, 0o600);
  kernel.configureDevice(device, madeBy(call, "host state"));
  note(() => `  + device ${device} of ${call.containerId}`);
}

/** Resets the device that its ADD had, whose it may be now. @throws Error of the disk */
export function releaseDevice(call: PluginCall): void {
  const { disk, kernel, note } = world();
  const path = cachePath(call);
  if (!disk.exists(path)) return;
  const device = disk.readFile(path).toString();
  kernel.resetDevice(device);
  note(() => `  - device ${device} by ${call.containerId}`);
  disk.unlink(path);
}
