import type { JsonObject } from "#lib/json.ts";
import { type FieldReader, readFields } from "#lib/parsing/field-reader.ts";
import { type DeviceEntry, orderedDevices, type PodDevices } from "./ordered-devices.ts";

/** The names of a pod's containers, in the order of its specification. */
export interface ContainerNames {
  /** Init containers with `restartPolicy: Always`. The kubelet lists them first. */
  readonly sidecars: readonly string[];
  readonly main: readonly string[];
}

/** Reads the names from a Pod of the API. @throws DocumentError */
export function containerNames(pod: JsonObject): ContainerNames {
  return readFields(pod, { subject: "Pod" }, (fields) => {
    const spec = fields.object("spec");
    const init = spec?.objects("initContainers") ?? [];
    const main = spec?.objects("containers") ?? [];
    const sidecars = init.filter((container) => container.string("restartPolicy") === "Always");
    return { sidecars: sidecars.map(nameOf), main: main.map(nameOf) };
  });
}

function nameOf(container: FieldReader): string {
  return container.required("name");
}

const subject = "the kubelet's device checkpoint";

interface CheckpointEntry extends DeviceEntry {
  readonly podUid: string;
  readonly containerName: string;
}

/**
 * The devices of a pod in the kubelet's checkpoint (`device-plugins/kubelet_internal_checkpoint`).
 * Its entries are unordered: containers are sorted as in the pod's specification, without init
 * containers that have ended, or by name if that is unknown. The checksum is not verified, because
 * it exceeds JavaScript's integers.
 * @throws DocumentError, SyntaxError
 */
export function devicesFromCheckpoint(
  content: string,
  pod: { readonly uid: string; readonly containers: ContainerNames | undefined },
): PodDevices {
  const entries = parseCheckpoint(content).filter(({ podUid }) => podUid === pod.uid);
  const byContainer = Map.groupBy(entries, ({ containerName }) => containerName);
  const { containers } = pod;
  const order =
    containers === undefined
      ? [...byContainer.keys()].sort()
      : [...containers.sidecars, ...containers.main];
  const ofContainers = order.map((name) => byContainer.get(name) ?? []);
  return orderedDevices(ofContainers, subject);
}

function parseCheckpoint(content: string): CheckpointEntry[] {
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
