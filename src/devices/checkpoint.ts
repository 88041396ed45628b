import { type FieldReader, readFields } from "#lib/field-reader.ts";
import type { ContainerNames } from "./container-names.ts";
import { type DeviceEntry, type DeviceIds, orderedDevices } from "./ordered-devices.ts";

/** An allocation as the kubelet's device manager keeps it. */
interface CheckpointEntry extends DeviceEntry {
  readonly podUid: string;
  readonly containerName: string;
}

/**
 * The devices of a pod by the kubelet's checkpoint (`device-plugins/kubelet_internal_checkpoint`). Entries are
 * in no order: containers are put into that of the specification, which leaves init containers out that
 * have ended, or by name where it is not known. Its checksum is beyond what JSON numbers can be here.
 * @throws DocumentError, SyntaxError
 */
export function devicesFromCheckpoint(
  content: string,
  pod: { readonly uid: string; readonly containers: ContainerNames | undefined },
): DeviceIds {
  const entries = parseCheckpoint(content).filter(({ podUid }) => podUid === pod.uid);
  const byContainer = Map.groupBy(entries, ({ containerName }) => containerName);
  const { containers } = pod;
  const order =
    containers === undefined
      ? [...byContainer.keys()].sort()
      : [...containers.sidecars, ...containers.main];
  return orderedDevices(order.map((name) => byContainer.get(name) ?? []));
}

function parseCheckpoint(content: string): CheckpointEntry[] {
  const subject = "the kubelet's device checkpoint";
  return readFields(JSON.parse(content), { subject }, (fields) =>
    (fields.object("Data")?.objects("PodDeviceEntries") ?? []).map(readEntry),
  );
}

function readEntry(entry: FieldReader): CheckpointEntry {
  const byNuma = entry.object("DeviceIDs");
  return {
    podUid: entry.required("PodUID"),
    containerName: entry.required("ContainerName"),
    resourceName: entry.required("ResourceName"),
    deviceIds: Object.keys(byNuma?.raw ?? {}).flatMap((node) => byNuma?.strings(node) ?? []),
  };
}
