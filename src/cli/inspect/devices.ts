import { askPlexusd, podPath } from "#cli/ask-plexusd.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { podName } from "#cli/pod-name.ts";
import { table } from "#cli/table.ts";
import { claimedDevicesPage, type DevicesByResource } from "#daemon/admin/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { PodName } from "#engine/explain/explain-pod.ts";
import type { AllocatedDevice } from "#engine/plan/devices/device-ports.ts";
import type { Logger } from "#engine/ports.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { readRecords } from "./read-records.ts";

/** `plexusctl devices`. */
export const devicesCommand: Command = {
  name: "devices",
  synopsis: "[NAMESPACE/]POD [--state-dir DIR] [--kubelet-dir DIR] [--socket PATH]",
  summary: "show which devices a pod was allocated, and which network got which",
  help: `Asks the kubelet of this node, and plexusd what the pod's resource claims were allocated, and compares
with what is recorded of the pod's attachments.

  --state-dir DIR    attachment records (default ${defaultPaths.stateDir})
  --kubelet-dir DIR  the kubelet's directory (default ${defaultPaths.kubeletDir})
  --socket PATH      the socket of plexusd (default ${defaultPaths.socket})

Exit code 1: one of the two does not answer; what is known otherwise is listed all the same.`,
  flags: {
    "state-dir": { type: "string", default: defaultPaths.stateDir },
    "kubelet-dir": { type: "string", default: defaultPaths.kubeletDir },
    socket: { type: "string", default: defaultPaths.socket },
  },
  argumentCount: 1,
  run: devices,
};

async function devices(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const pod = podName(args.positionals[0]);
  const { records } = await readRecords(stringFlag(args, "state-dir"));
  const own = records.filter(
    (record) => record.pod?.namespace === pod.namespace && record.pod.name === pod.name,
  );
  const uid = own[0]?.pod?.uid ?? "";
  const answers = await Promise.all([
    answerOf(askKubelet(stringFlag(args, "kubelet-dir"), { ...pod, uid })),
    answerOf(askForClaims(stringFlag(args, "socket"), pod)),
  ]);
  const problems = answers.flatMap((answer) => ("problem" in answer ? [answer.problem] : []));
  const rows = rowsOf(
    answers.flatMap((answer) => ("devices" in answer ? answer.devices : [])),
    own.flatMap(({ attachments }) => attachments),
  );
  if (rows.length > 0) {
    for (const line of table(["DEVICE", "RESOURCE", "NETWORK", "SOURCE"], rows)) output.out(line);
  } else if (problems.length === 0) {
    output.out(`pod ${pod.namespace}/${pod.name} was allocated no devices`);
  }
  for (const problem of problems) output.err(problem);
  return problems.length === 0 ? ExitCode.Done : ExitCode.Failed;
}

/** A device with the resource that it was allocated of; "" for none. */
interface ResourceDevice extends AllocatedDevice {
  readonly resourceName: string;
}

async function answerOf(
  asked: Promise<readonly ResourceDevice[]>,
): Promise<{ readonly devices: readonly ResourceDevice[] } | { readonly problem: string }> {
  try {
    return { devices: await asked };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

async function askKubelet(
  kubeletDir: string,
  pod: PodName & { readonly uid: string },
): Promise<readonly ResourceDevice[]> {
  const source = new KubeletDevices({ kubeletDir, logger: silent });
  try {
    const devices = await source.devicesOf({
      pod: { ...pod, annotations: {}, isStatic: false },
      networks: [],
      podObject: async () => undefined,
      signal: new AbortController().signal,
    });
    return withResource(devices);
  } finally {
    source.close();
  }
}

async function askForClaims(socket: string, pod: PodName): Promise<readonly ResourceDevice[]> {
  const path = `${podPath(pod)}/${claimedDevicesPage}`;
  return withResource(Object.entries(await askPlexusd<DevicesByResource>(socket, path)));
}

function withResource(
  byResource: Iterable<readonly [string, readonly AllocatedDevice[]]>,
): readonly ResourceDevice[] {
  return [...byResource].flatMap(([resourceName, list]) =>
    list.map((device) => ({ ...device, resourceName })),
  );
}

/** One row for each device that was allocated or that a record names; an allocated one need not be attached. */
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

/** A network that names a claim need not name the resource. */
function isRecordedAs(device: ResourceDevice, recorded: ResourceDevice): boolean {
  return device.id === recorded.id && ["", device.resourceName].includes(recorded.resourceName);
}

const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};
