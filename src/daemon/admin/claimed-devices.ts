import type { AllocatedDevice } from "#engine/plan/devices/device-ports.ts";

/** The last part of the path for the devices that a pod's resource claims were allocated. */
export const claimedDevicesPage = "claimed-devices";

/** Devices by resource name; "" has those without one. */
export type DevicesByResource = Readonly<Record<string, readonly AllocatedDevice[]>>;
