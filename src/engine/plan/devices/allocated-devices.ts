import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AllocatedDevice, DeviceLookup, DeviceNetwork } from "#engine/ports/devices.ts";

type Devices = ReadonlyMap<string, readonly AllocatedDevice[]>;

/**
 * The devices of all sources. A source that is unavailable does not delay a pod that has enough
 * devices from the others: the kubelet may know them while the API server is unavailable.
 * @throws CniError 100 when two of them have devices of a resource that a network needs; else as
 *   the sources do
 */
export async function allocatedDevices(
  ctx: CallContext,
  pod: Pod | undefined,
  networks: readonly DeviceNetwork[],
): Promise<Devices> {
  if (pod === undefined) return new Map();
  const lookup = { pod, networks, podObject: onceOnly(ctx, pod), signal: ctx.signal };
  const answers = await ctx.trace.phase("devices", () =>
    Promise.allSettled(ctx.deps.deviceSources.map((source) => source.devicesOf(lookup))),
  );
  const found = answers.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const all = together(found, networks);
  const failures = answers.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  const decisive = failures.find((error) => !(error instanceof CniError && error.transient));
  if (decisive !== undefined) throw decisive;
  if (failures.length > 0 && !suffices(all, networks)) throw failures[0];
  for (const err of failures)
    ctx.logger.warn({ err }, "devices of the pod are not all known; those of its networks are");
  return all;
}

/** Whether every network has its device, whatever the unavailable sources would add. */
function suffices(devices: Devices, networks: readonly DeviceNetwork[]): boolean {
  return networks.every(({ resourceName = "", selection }) => {
    if (resourceName === "" || selection?.resourceClaim !== undefined) return false;
    const needing = networks.filter((network) => network.resourceName === resourceName);
    return (devices.get(resourceName)?.length ?? 0) >= needing.length;
  });
}

function together(answers: readonly Devices[], networks: readonly DeviceNetwork[]): Devices {
  const needed = new Set(networks.map(({ resourceName }) => resourceName));
  const all = new Map<string, readonly AllocatedDevice[]>();
  for (const [resourceName, devices] of answers.flatMap((answer) => [...answer])) {
    const before = all.get(resourceName) ?? [];
    if (before.length > 0 && devices.length > 0 && needed.has(resourceName))
      throw allocatedTwice(resourceName, before, devices);
    all.set(resourceName, [...before, ...devices]);
  }
  return all;
}

function onceOnly({ deps, signal }: CallContext, pod: Pod): DeviceLookup["podObject"] {
  let reading: ReturnType<DeviceLookup["podObject"]> | undefined;
  return async () => (reading ??= deps.source?.getPodObject(pod, { signal }));
}

function allocatedTwice(
  resourceName: string,
  ...answers: readonly (readonly AllocatedDevice[])[]
): CniError {
  const sources = answers.map((devices) => devices[0]?.source).join(" and of ");
  const message = `the pod has devices of resource ${resourceName} of ${sources}: which of them its networks are to get is not defined`;
  return new CniError("UnusableDevice", message);
}
