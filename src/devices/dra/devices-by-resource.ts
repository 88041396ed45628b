import { CniError } from "#cni/error.ts";
import type { AllocatedDevice, ClaimRequest } from "#engine/plan/devices/device-ports.ts";
import type { ClaimedDevice } from "./claim.ts";
import { type DeviceAttributes, deviceKey } from "./device-attributes.ts";
import { DeviceList } from "./device-list.ts";
import type { PodClaim } from "./pod-claims.ts";
import type { ReadClaim } from "./read-claims.ts";

interface KnownClaims {
  readonly claims: readonly ReadClaim[];
  readonly attributes: DeviceAttributes;
  /** Resources that the pod's networks need. Each of their devices must have an ID. */
  readonly needed: ReadonlySet<string | undefined>;
}

/**
 * The devices of a pod's claims that a plugin can attach, by the resource of their attributes or
 * the extended resource of their claim.
 * @throws CniError 100 for a device without ID of a needed extended resource
 */
export function devicesByResource(
  known: KnownClaims,
): ReadonlyMap<string, readonly AllocatedDevice[]> {
  const list = new DeviceList();
  for (const read of known.claims) {
    addClaimed(list, read, known.attributes);
    for (const mapping of read.claim.mappings) addExtended(list, read, { ...known, mapping });
  }
  return list.byResource;
}

function addClaimed(
  list: DeviceList,
  { claim, allocated }: ReadClaim,
  attributes: DeviceAttributes,
): void {
  for (const device of allocated.devices) {
    const { id, resourceName = "" } = attributes.get(deviceKey(device)) ?? {};
    if (claim.name === undefined || id === undefined) continue;
    const request: ClaimRequest = { claim: claim.name, request: device.request };
    list.add(resourceName, { id, source: sourceOf(claim), claims: [request] });
  }
}

function addExtended(
  list: DeviceList,
  { claim, allocated }: ReadClaim,
  { attributes, needed, mapping }: KnownClaims & { mapping: PodClaim["mappings"][number] },
): void {
  const { resourceName, requestName } = mapping;
  for (const device of allocated.devices.filter(({ request }) => request === requestName)) {
    const id = attributes.get(deviceKey(device))?.id;
    if (id !== undefined) list.add(resourceName, { id, source: sourceOf(claim) });
    else if (needed.has(resourceName)) throw withoutId(device, resourceName);
  }
}

function sourceOf({ claimName }: PodClaim): string {
  return `ResourceClaim ${claimName}`;
}

function withoutId({ driver, pool, device }: ClaimedDevice, resourceName: string): CniError {
  return new CniError(
    "UnusableDevice",
    `the pod was allocated the device ${device} of pool ${pool} for the extended resource ${resourceName}, and ` +
      `driver ${driver} publishes neither k8s.cni.cncf.io/deviceID nor resource.kubernetes.io/pciBusID of it`,
  );
}
