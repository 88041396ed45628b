import type { AllocatedDevice } from "#engine/ports/devices.ts";

/** The devices of a pod by resource, in the order in which networks get them. */
export type PodDevices = ReadonlyMap<string, readonly AllocatedDevice[]>;

/** Devices of a container: one entry for each device, or for each NUMA node of a device. */
export interface DeviceEntry {
  readonly resourceName: string;
  readonly deviceIds: readonly string[];
}

/** Distinct devices, container by container and sorted bytewise: the kubelet's order varies. */
export function orderedDevices(
  containers: readonly (readonly DeviceEntry[])[],
  source: string,
): PodDevices {
  const ordered = new Map<string, Set<string>>();
  for (const entries of containers) {
    for (const [resource, own] of Map.groupBy(entries, ({ resourceName }) => resourceName)) {
      const sorted = own.flatMap(({ deviceIds }) => deviceIds).sort(bytewise);
      ordered.set(resource, new Set([...(ordered.get(resource) ?? []), ...sorted]));
    }
  }
  return new Map([...ordered].map(([name, ids]) => [name, [...ids].map((id) => ({ id, source }))]));
}

/** Orders texts by their bytes. */
export function bytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
