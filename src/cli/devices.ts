import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { AllocatedDevice } from "#engine/device-ports.ts";
import type { Logger } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "./command.ts";
import { readRecords } from "./read-records.ts";
import { table } from "./table.ts";

/** `plexusctl devices`. */
export const devicesCommand: Command = {
  name: "devices",
  synopsis: "[NAMESPACE/]POD [--state-dir DIR] [--kubelet-dir DIR]",
  summary: "show which devices a pod was allocated, and which network got which",
  help: `Asks the kubelet of this node, and compares with what is recorded of the pod's attachments.

  --state-dir DIR    attachment records (default ${defaultPaths.stateDir})
  --kubelet-dir DIR  the kubelet's directory (default ${defaultPaths.kubeletDir})

Exit code 1: the kubelet does not answer; the recorded devices are listed all the same.`,
  flags: {
    "state-dir": { type: "string", default: defaultPaths.stateDir },
    "kubelet-dir": { type: "string", default: defaultPaths.kubeletDir },
  },
  argumentCount: 1,
  run: devices,
};

async function devices(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const pod = podOf(args.positionals[0] ?? "");
  const { records } = await readRecords(stringFlag(args, "state-dir"));
  const own = records.filter(
    (record) => record.pod?.namespace === pod.namespace && record.pod.name === pod.name,
  );
  const answer = await askKubelet(stringFlag(args, "kubelet-dir"), pod, own);
  const rows = rowsOf("devices" in answer ? answer.devices : new Map(), own);
  if (rows.length > 0) {
    for (const line of table(["DEVICE", "RESOURCE", "NETWORK", "SOURCE"], rows)) output.out(line);
  } else if ("devices" in answer) {
    output.out(`pod ${pod.namespace}/${pod.name} was allocated no devices`);
  }
  if ("devices" in answer) return ExitCode.Done;
  output.err(answer.problem);
  return ExitCode.Failed;
}

function podOf(reference: string): { namespace: string; name: string } {
  const [first = "", second] = reference.split("/");
  return second === undefined
    ? { namespace: "default", name: first }
    : { namespace: first, name: second };
}

type Allocated = ReadonlyMap<string, readonly AllocatedDevice[]>;

async function askKubelet(
  kubeletDir: string,
  pod: { readonly namespace: string; readonly name: string },
  records: readonly AttachmentRecord[],
): Promise<{ readonly devices: Allocated } | { readonly problem: string }> {
  const source = new KubeletDevices({ kubeletDir, logger: silent });
  const uid = records[0]?.pod?.uid ?? "";
  try {
    const devices = await source.devicesOf({
      pod: { ...pod, uid, annotations: {}, isStatic: false },
      networks: [],
      podObject: async () => undefined,
      signal: new AbortController().signal,
    });
    return { devices };
  } catch (error) {
    return { problem: errorMessage(error) };
  } finally {
    source.close();
  }
}

/** One row for each device that the kubelet or a record names; an allocated one need not be attached. */
function rowsOf(allocated: Allocated, records: readonly AttachmentRecord[]): string[][] {
  const attached = records.flatMap(({ attachments }) => attachments);
  const isOf = (resourceName: string, id: string) => (attachment: RecordedAttachment) =>
    attachment.device?.id === id && attachment.device.resourceName === resourceName;
  const known = [...allocated].flatMap(([resourceName, list]) =>
    list.map(({ id, source }) => ({ resourceName, id, source })),
  );
  const recordedOnly = attached.flatMap(({ device }) =>
    device === undefined ||
    (allocated.get(device.resourceName) ?? []).some(({ id }) => id === device.id)
      ? []
      : [{ ...device, source: `${device.source}, when it was attached` }],
  );
  return [...known, ...recordedOnly].map(({ resourceName, id, source }) => {
    const attachment = attached.find(isOf(resourceName, id));
    const network =
      attachment === undefined ? "-" : `${attachment.displayName} (${attachment.ifName})`;
    return [id, resourceName || "-", network, source];
  });
}

const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};
