import { type NetConfList, withPluginKeys } from "#cni/conf/conf.ts";

/** `dddd:bb:dd.f`, with a domain of up to eight digits. */
const pciAddress = /^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/i;

/**
 * The network with a device in every plugin's configuration, as Multus has it: `deviceID`, which wins over
 * one in the definition, and for a PCI device `pciBusID` besides. Any other ID there would keep `host-device`
 * from finding the link that its configuration names.
 */
export function withDevice(list: NetConfList, deviceId: string): NetConfList {
  const pciBusID = pciAddress.test(deviceId) ? { pciBusID: deviceId } : {};
  return withPluginKeys(list, () => ({ deviceID: deviceId, ...pciBusID }));
}
