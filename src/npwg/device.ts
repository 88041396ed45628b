import { type NetConfList, withPluginKeys } from "#cni/conf/conf.ts";

/** `dddd:bb:dd.f`, with a domain of up to eight digits. */
const pciAddress = /^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/i;

/**
 * Adds a device to every plugin's configuration, as Multus does: `deviceID`, which overrides that
 * of the definition, and for PCI devices also `pciBusID`. With any other ID there, `host-device`
 * would not find the link that its configuration names.
 */
export function withDevice(list: NetConfList, deviceId: string): NetConfList {
  const pciBusID = pciAddress.test(deviceId) ? { pciBusID: deviceId } : {};
  return withPluginKeys(list, () => ({ deviceID: deviceId, ...pciBusID }));
}
