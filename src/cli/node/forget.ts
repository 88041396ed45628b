import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { type CliOutput, ExitCode } from "#cli/command.ts";
import { readRecords } from "#cli/inspect/read-records.ts";
import {
  type AttachmentRecord,
  attachmentsToDetach,
  isOfEarlierBoot,
  type RecordedAttachment,
  sandboxName,
} from "#engine/record/record.ts";
import { readBootId } from "#host/boot-id.ts";
import { FileRecordStore } from "#records/file-store.ts";

/** What `plexusctl gc --forget` gets. */
interface ForgetOptions {
  readonly stateDir: string;
  /** A container ID, or its beginning. */
  readonly sandbox: string;
  /** Also a sandbox that is attached. */
  readonly attached: boolean;
}

/**
 * Removes the records of a sandbox without executing a plugin, and prints what is lost by that. It works on the state
 * directory, so that it also helps where plexusd is gone.
 * @throws Error when a record cannot be read or removed
 */
export async function forget(options: ForgetOptions, output: CliOutput): Promise<ExitCode> {
  const { stateDir, sandbox, attached } = options;
  const { records } = await readRecords(stateDir);
  const [id, ...others] = containersOf(records, sandbox);
  if (id === undefined || others.length > 0) {
    output.err(
      id === undefined
        ? `sandbox ${sandbox}: no record in ${stateDir}; plexusctl records lists them`
        : `sandbox ${sandbox}: the ID is not unique (${[id, ...others].join(", ")}); give more of it`,
    );
    return ExitCode.Failed;
  }
  const found = records.filter(({ containerId }) => containerId === id);
  const bootId = await readBootId();
  for (const record of found) {
    if (attached || !isAttached(record) || (await namespaceIsGone(record, bootId))) continue;
    output.err(
      `${nameOf(record)}: attached, and its network namespace may exist; delete the pod, or add --attached`,
    );
    return ExitCode.Failed;
  }
  const store = await FileRecordStore.open(stateDir);
  for (const record of found) {
    for (const attachment of attachmentsToDetach(record, bootId)) output.out(lossOf(attachment));
    await store.finish(record);
    output.out(`${nameOf(record)}: forgotten; no plugin was executed`);
  }
  return ExitCode.Done;
}

/** The container of this ID, else those whose ID begins so. */
function containersOf(records: readonly AttachmentRecord[], sandbox: string): string[] {
  const ids = [...new Set(records.map(({ containerId }) => containerId))];
  if (ids.includes(sandbox)) return [sandbox];
  return ids.filter((id) => id.startsWith(sandbox)).sort();
}

function nameOf(record: AttachmentRecord): string {
  return `${sandboxName(record)} (${record.containerId}@${record.ifName})`;
}

/** Attached, or about to be: a record without a failed teardown may be that of an ADD in progress. */
function isAttached({ attachments, teardown }: AttachmentRecord): boolean {
  return teardown === undefined || attachments.some(({ state }) => state === "attached");
}

/** What no call can release any more, as only the record names it. */
function lossOf({ displayName, ifName, state, result, device }: RecordedAttachment): string {
  const ips = Array.isArray(result?.ips) ? result.ips : [];
  const addresses = ips.map((ip) => String((ip as { address?: unknown }).address));
  const kept = [
    ...(addresses.length > 0 ? [`addresses ${addresses.join(" ")}`] : []),
    ...(state === "attached" ? ["its interface and rules on the host"] : []),
    ...(device === undefined ? [] : [`the settings of device ${device.id}`]),
  ];
  const what = kept.length > 0 ? kept.join(", ") : "what its plugins did before they failed";
  return `network ${displayName} (${ifName}, ${state}): Plexus will not release ${what}`;
}

/** Whether the namespace is certainly gone: a container may not see the host's directory. */
async function namespaceIsGone(record: AttachmentRecord, bootId: string): Promise<boolean> {
  const { netns } = record;
  if (netns === "" || isOfEarlierBoot(record, bootId)) return true;
  const exists = async (path: string): Promise<boolean> =>
    (await stat(path).catch(() => undefined)) !== undefined;
  return !(await exists(netns)) && (await exists(dirname(netns)));
}
