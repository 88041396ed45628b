import type { ResourceApi } from "#engine/plan/devices/device-ports.ts";
import type { Logger } from "#engine/ports.ts";
import type { AllocatedClaim, ClaimedDevice } from "./claim.ts";
import { type DeviceAttributes, deviceKey, type NetworkDevice } from "./device-attributes.ts";
import { deviceFromMetadata } from "./metadata-files.ts";
import { devicesFromSlices } from "./slices.ts";

export interface AttributeSources {
  readonly api: ResourceApi;
  /** The kubelet's directory, where drivers write device metadata. */
  readonly kubeletDir: string;
  readonly logger: Logger;
}

interface AllocatedClaims {
  readonly namespace: string;
  readonly claims: readonly AllocatedClaim[];
  readonly nodeName: string;
  readonly signal: AbortSignal;
}

/**
 * The attributes of all devices of the claims, from the drivers' files or else from their slices.
 * @throws Error as {@link ResourceApi.listSlices} does
 */
export async function readAttributes(
  sources: AttributeSources,
  { namespace, claims, nodeName, signal }: AllocatedClaims,
): Promise<DeviceAttributes> {
  const all = claims.flatMap((claim) => claim.devices.map((device) => ({ claim, device })));
  const attributes = new Map<string, NetworkDevice>();
  for (const { claim, device } of all) {
    const found = await fromFile(sources, { namespace, claim, device });
    if (found !== undefined) attributes.set(deviceKey(device), found);
  }
  const others = all.map(({ device }) => device).filter((d) => !attributes.has(deviceKey(d)));
  for (const [driver, devices] of Map.groupBy(others, (device) => device.driver)) {
    const slices = sources.api.listSlices(driver, { nodeName, signal });
    for (const entry of await devicesFromSlices(slices, { driver, devices }))
      attributes.set(...entry);
  }
  return attributes;
}

/** An unusable file is ignored: the slices have the same attributes. */
async function fromFile(
  { kubeletDir, logger }: AttributeSources,
  allocated: { namespace: string; claim: AllocatedClaim; device: ClaimedDevice },
): Promise<NetworkDevice | undefined> {
  try {
    return await deviceFromMetadata({ kubeletDir, ...allocated });
  } catch (error) {
    const { namespace, claim, device } = allocated;
    const fields = { err: error, driver: device.driver, claim: `${namespace}/${claim.name}` };
    logger.warn(fields, "cannot read the driver's metadata of a device; using its slices");
    return undefined;
  }
}
