/** The devices of a pod by resource, in the order in which networks get them. */
export type DeviceIds = ReadonlyMap<string, readonly string[]>;

/** Devices of a container: one entry for each device, or for each NUMA node of a device. */
export interface DeviceEntry {
  readonly resourceName: string;
  readonly deviceIds: readonly string[];
}

/** Distinct devices, container by container and sorted bytewise: the kubelet's order varies. */
export function orderedDevices(containers: readonly (readonly DeviceEntry[])[]): DeviceIds {
  const ordered = new Map<string, Set<string>>();
  for (const entries of containers) {
    for (const [resourceName, ids] of byResource(entries)) {
      const all = ordered.get(resourceName) ?? new Set();
      for (const id of ids.toSorted(bytewise)) all.add(id);
      ordered.set(resourceName, all);
    }
  }
  return new Map([...ordered].map(([resourceName, ids]) => [resourceName, [...ids]]));
}

function byResource(entries: readonly DeviceEntry[]): Map<string, string[]> {
  const ids = new Map<string, string[]>();
  for (const { resourceName, deviceIds } of entries) {
    ids.set(resourceName, [...(ids.get(resourceName) ?? []), ...deviceIds]);
  }
  return ids;
}

function bytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
