import { isDeepStrictEqual } from "node:util";
import { CniError } from "#cni/error.ts";
import type { PlannedAttachment, ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import type { AllocatedDevice } from "#engine/ports/devices.ts";
import { selectionElement } from "#npwg/selection/network-selection.ts";

/** `true`: an element attaches an interface for each device of the resource, not for one. */
export const eachDeviceAnnotation = "plexus.dev/each-device";

/** Whether a network takes all its devices. @throws CniError 100 for an invalid annotation */
export function takesEachDevice({ displayName, eachDevice = "false" }: ResolvedNetwork): boolean {
  if (eachDevice === "true" || eachDevice === "false") return eachDevice === "true";
  const value = JSON.stringify(eachDevice.slice(0, 100));
  const message = `network ${displayName}: annotation ${eachDeviceAnnotation}: must be true or false, not ${value}`;
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

/** @throws CniError 100 if a network that gets several interfaces is requested as one */
export function refuseKeysOfOne(
  { displayName, isDefault, selection }: ResolvedNetwork,
  count: number,
): void {
  const asked = Object.entries(keysOfOne).find(([key]) => Object.hasOwn(selection ?? {}, key));
  if (!isDefault && asked === undefined) return;
  const problem = isDefault
    ? "the default network can have only one"
    : `remove ${asked?.[1]} from its element, which can be for only one`;
  const message = `network ${displayName}: the pod gets ${count} interfaces, one for each device (${eachDeviceAnnotation}); ${problem}`;
  throw new CniError("InvalidRequest", message);
}

/** How many attachments by devices an element has already: what lacks one gets it later. */
export function earlierOf(
  { selection }: ResolvedNetwork,
  attachments: readonly PlannedAttachment[],
): number {
  if (selection === undefined) return 0;
  const element = selectionElement(selection);
  const isOwn = ({ selection: own, deviceCount }: PlannedAttachment): boolean =>
    own !== undefined &&
    deviceCount !== undefined &&
    isDeepStrictEqual(selectionElement(own), element);
  return attachments.filter(isOwn).length;
}

/** Whether a device's ID is `dddd:bb:dd.f`, with a domain of up to eight digits. */
export function isPciAddress(id: string): boolean {
  return /^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/i.test(id);
}

/** Devices by PCI address; then others, as they were allocated. */
export function inPciOrder(devices: readonly AllocatedDevice[]): AllocatedDevice[] {
  // All numbers but the domain have fixed widths.
  const place = ({ id }: AllocatedDevice): number =>
    isPciAddress(id) ? Number.parseInt(id.replaceAll(/[:.]/g, ""), 16) : Number.POSITIVE_INFINITY;
  return devices.toSorted((a, b) => place(a) - place(b) || 0);
}
