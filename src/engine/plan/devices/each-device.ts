import { CniError } from "#cni/error.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import type { AllocatedDevice } from "#engine/ports/devices.ts";
import { resourceNameAnnotation } from "#npwg/selection/selection.ts";

/** `true`: an element attaches an interface for each device of the resource, not for one. */
export const eachDeviceAnnotation = "plexus.dev/each-device";

/** Whether each device gets an interface. @throws CniError 100 for an invalid annotation */
export function takesEachDevice(network: ResolvedNetwork): boolean {
  const { displayName, resourceName = "", selection, eachDevice = "false" } = network;
  const hasDevices = resourceName !== "" || selection?.resourceClaim !== undefined;
  if (eachDevice === "false" || (eachDevice === "true" && hasDevices)) return eachDevice === "true";
  const problem =
    eachDevice === "true"
      ? `needs ${resourceNameAnnotation} with a resource that has devices`
      : `must be true or false, not ${JSON.stringify(eachDevice.slice(0, 100))}`;
  const message = `network ${displayName}: annotation ${eachDeviceAnnotation}: ${problem}`;
  throw new CniError("InvalidRequest", message);
}

/** Keys of an element that are for one interface. */
const keysOfOne = {
  ifName: "interface",
  mac: "mac",
  ips: "ips",
  infinibandGuid: "infiniband-guid",
  portMappings: "portMappings",
  defaultRoute: "default-route",
  ipamClaimReference: "ipam-claim-reference",
} as const;

/**
 * A network's devices in the order of its interfaces: by PCI address; then others, as they were
 * allocated.
 * @throws CniError 100 for several if the network is requested as one interface
 */
export function devicesInOrder(
  { displayName, isDefault, selection }: ResolvedNetwork,
  devices: readonly AllocatedDevice[],
): readonly AllocatedDevice[] {
  const asked = Object.entries(keysOfOne).find(([key]) => Object.hasOwn(selection ?? {}, key));
  if (devices.length < 2 || !(isDefault || asked))
    return devices.toSorted((a, b) => place(a) - place(b) || 0);
  const problem = isDefault
    ? "the default network can have only one"
    : `remove ${asked?.[1]} from its element, which can be for only one`;
  const message = `network ${displayName}: the pod gets ${devices.length} interfaces, one for each device (${eachDeviceAnnotation}); ${problem}`;
  throw new CniError("InvalidRequest", message);
}

/** Whether a device's ID is `dddd:bb:dd.f`, with a domain of up to eight digits. */
export function isPciAddress(id: string): boolean {
  return /^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/i.test(id);
}

/** All numbers of a PCI address but the domain have fixed widths. */
function place({ id }: AllocatedDevice): number {
  return isPciAddress(id)
    ? Number.parseInt(id.replaceAll(/[:.]/g, ""), 16)
    : Number.POSITIVE_INFINITY;
}
