import { adminFlags, askAdmin, podName, podPath } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, textFlag } from "#cli/flags.ts";
import { columns, print } from "#cli/output-format.ts";
import { claimedDevicesPage, type DevicesByResource } from "#daemon/admin/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import type { AllocatedDevice } from "#engine/ports/devices.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { isOfPod, type RecordedAttachment } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { readRecords } from "./node-state.ts";

export const devicesCommand = command({
  name: "devices",
  positionals: "[NAMESPACE/]POD",
  summary: "show the devices that a pod was allocated, and which network got which",
  description: `Asks the kubelet of this node for devices of device plugins and plexusd for those of resource
claims, and compares them with the pod's attachment record.`,
  flags: {
    "state-dir": commonFlags.stateDir,
    "kubelet-dir": textFlag("DIR", "the kubelet's directory", defaultPaths.kubeletDir),
    ...adminFlags,
  },
  failsWhen: "the kubelet or plexusd does not answer; what is known is still listed",
  async run({ flags, positionals }, output) {
    const pod = podName(positionals[0]);
    const { records } = await readRecords(flags["state-dir"]);
    const own = records.filter((record) => isOfPod(record, pod));
    const uid = own[0]?.pod?.uid ?? "";
    const answers = await Promise.allSettled([
      askKubelet(flags["kubelet-dir"], { ...pod, uid }),
      askAdmin<DevicesByResource>(flags.socket, `${podPath(pod)}/${claimedDevicesPage}`),
    ]);
    const allocated = answers
      .flatMap((answer) => (answer.status === "fulfilled" ? Object.entries(answer.value) : []))
      .flatMap(([resourceName, list]) => list.map((device) => ({ ...device, resourceName })));
    const problems = answers.filter((answer) => answer.status === "rejected");
    const attached = own.flatMap(({ attachments }) => attachments);
    const rows = rowsOf(allocated, attached);
    const value = rows.map(([device, resource, network, source]) => {
      return { device, resource, network, source };
    });
    const none =
      problems.length > 0 ? [] : [`pod ${pod.namespace}/${pod.name} was allocated no devices`];
    const head = ["DEVICE", "RESOURCE", "NETWORK", "SOURCE"];
    const text = () => (rows.length > 0 ? columns([head, ...rows]) : none);
    print(output, flags.output, { value, text });
    for (const { reason } of problems) output.err(errorMessage(reason));
    return problems.length === 0 ? ExitCode.Done : ExitCode.Failed;
  },
});

/** A device and the resource that it was allocated from; "" for none. */
interface ResourceDevice extends AllocatedDevice {
  readonly resourceName: string;
}

async function askKubelet(
  kubeletDir: string,
  pod: PodName & { readonly uid: string },
): Promise<DevicesByResource> {
  const source = new KubeletDevices({ kubeletDir, logger: noLogger });
  const devices = await source.devicesOf({
    pod: { ...pod, annotations: {} },
    networks: [],
    podObject: async () => undefined,
    signal: new AbortController().signal,
  });
  return Object.fromEntries(devices);
}

/** One row for each device that was allocated, attached or not, or that a record names. */
function rowsOf(
  allocated: readonly ResourceDevice[],
  attached: readonly RecordedAttachment[],
): string[][] {
  const recordedOnly = attached
    .flatMap(({ device }) => device ?? [])
    .filter((device) => !allocated.some((each) => isRecordedAs(each, device)))
    .map((device) => ({ ...device, source: `${device.source}, when it was attached` }));
  return [...allocated, ...recordedOnly].map((device) => {
    const attachment = attached.find((each) => each.device && isRecordedAs(device, each.device));
    const network =
      attachment === undefined ? "-" : `${attachment.displayName} (${attachment.ifName})`;
    return [device.id, device.resourceName || "-", network, sourceOf(device)];
  });
}

function sourceOf({ source, claims = [] }: AllocatedDevice): string {
  const requests = claims.map(({ claim, request }) => `claim ${claim}, request ${request}`);
  return requests.length === 0 ? source : `${source} (${requests.join("; ")})`;
}

/** A network that names a claim may leave out the resource. */
function isRecordedAs(device: ResourceDevice, recorded: ResourceDevice): boolean {
  return device.id === recorded.id && ["", device.resourceName].includes(recorded.resourceName);
}
