import { enabledCapabilities } from "#cni/conf/conf.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { cniDeviceInfoPath, deviceInfoCapability } from "#npwg/device-info.ts";

/** The capability arguments with the attachment's file, where a plugin of the network takes it. */
export function withDeviceInfoFile(
  { capabilityArgs, list }: ResolvedNetwork,
  owner: RecordKey,
): JsonObject {
  if (!enabledCapabilities(list).has(deviceInfoCapability)) return capabilityArgs;
  return { ...capabilityArgs, [deviceInfoCapability]: cniDeviceInfoPath(owner) };
}
