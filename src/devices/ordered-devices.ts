/** The devices of a pod by resource, each list in the order in which networks get them. */
export type DeviceIds = ReadonlyMap<string, readonly string[]>;

/** Some devices of a container: the kubelet has an entry for each device, or for each NUMA node of one. */
export interface DeviceEntry {
  readonly resourceName: string;
  readonly deviceIds: readonly string[];
}

/**
 * The devices of a pod whose containers, in their order, have these entries: container by container,
 * sorted bytewise within one, each once. The kubelet has them in another order each time, and those with
 * several NUMA nodes more than once.
 */
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
