import type { AllocatedDevice } from "#engine/plan/devices/device-ports.ts";

/** The last part of the path of what a pod's resource claims were allocated. */
export const claimedDevicesPage = "claimed-devices";

/** Devices by resource; those of none are under "". */
export type ReportedDevices = Readonly<Record<string, readonly AllocatedDevice[]>>;
