import type { AllocatedDevice } from "#engine/ports/devices.ts";

export const claimedDevicesPage = "claimed-devices";

/** Devices by resource name; "" has those without one. */
export type DevicesByResource = Readonly<Record<string, readonly AllocatedDevice[]>>;
