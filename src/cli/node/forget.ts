import { type CliStreams, ExitCode } from "#cli/command.ts";
import { readNodeNow, readRecords } from "#cli/inspect/node-state.ts";
import { attachmentsToDetach } from "#engine/del/planned-dels.ts";
import { addressesOf } from "#engine/explain/attached-network.ts";
import { leftoverReason, type NodeNow } from "#engine/leftovers/leftover.ts";
import {
  type AttachmentRecord,
  type RecordedAttachment,
  sandboxName,
} from "#engine/record/record.ts";
import { FileRecordStore } from "#records/file-store.ts";

/** The flags of `plexusctl gc --forget`. */
interface ForgetFlags {
  readonly forget: string;
  readonly attached: boolean;
  readonly "state-dir": string;
}

/** Removes a sandbox's records; executes no plugin. @throws Error when one cannot be removed */
export async function forgetSandbox(
  { forget: sandbox, attached, "state-dir": stateDir }: ForgetFlags,
  output: CliStreams,
): Promise<ExitCode> {
  const { records } = await readRecords(stateDir);
  const ids = containersOf(records, sandbox);
  if (ids.length !== 1) {
    output.err(
      ids.length === 0
        ? `sandbox ${sandbox}: no record in ${stateDir}; plexusctl records lists them`
        : `sandbox ${sandbox}: the ID is not unique (${ids.join(", ")}); give more of it`,
    );
    return ExitCode.Failed;
  }
  const found = records.filter(({ containerId }) => containerId === ids[0]);
  const now = await readNodeNow();
  // An attached one whose namespace is not certainly gone.
  const blocking = found.find((record) => {
    return isAttached(record) && record.netns !== "" && !now.isNothingAt(record.netns);
  });
  if (blocking !== undefined && !attached) {
    output.err(
      `${nameOf(blocking)}: attached, and its network namespace may exist; delete the pod, or add --attached`,
    );
    return ExitCode.Failed;
  }
  return forget(found, { stateDir, now, output, isForced: attached });
}

/**
 * Removes the records that `plexusctl records --leftovers` lists; executes no plugin.
 * @throws Error when one cannot be removed
 */
export async function forgetLeftovers(stateDir: string, output: CliStreams): Promise<ExitCode> {
  const { records } = await readRecords(stateDir);
  const now = await readNodeNow(records);
  const leftovers = records.filter((record) => leftoverReason(record, now) !== undefined);
  if (leftovers.length === 0) output.out(`no leftovers in ${stateDir}`);
  return forget(leftovers, { stateDir, now, output });
}

interface Forgetting {
  readonly stateDir: string;
  readonly now: NodeNow;
  readonly output: CliStreams;
  /** Also while a call for the sandbox runs, whose plugins may then leave something. @default false */
  readonly isForced?: boolean;
}

/** Removes records, and prints what stays allocated. */
async function forget(
  records: readonly AttachmentRecord[],
  { stateDir, now, output, isForced = false }: Forgetting,
): Promise<ExitCode> {
  let code: ExitCode = ExitCode.Done;
  const store = await FileRecordStore.open(stateDir);
  for (const record of records) {
    if (!isForced && (await store.isLocked(record.containerId))) {
      output.err(`${nameOf(record)}: a call for it is running; try again`);
      code = ExitCode.Failed;
      continue;
    }
    for (const attachment of attachmentsToDetach(record, now.bootId()))
      output.out(lossOf(attachment));
    await store.finish(record);
    output.out(`${nameOf(record)}: forgotten; no plugin was executed`);
  }
  return code;
}

/** The container with this ID, else all whose IDs begin with it. */
function containersOf(records: readonly AttachmentRecord[], sandbox: string): string[] {
  const ids = [...new Set(records.map(({ containerId }) => containerId))];
  if (ids.includes(sandbox)) return [sandbox];
  return ids.filter((id) => id.startsWith(sandbox)).sort();
}

function nameOf(record: AttachmentRecord): string {
  return `${sandboxName(record)} (${record.containerId}@${record.ifName})`;
}

/** A record without a failed teardown may belong to an ADD in progress. */
function isAttached({ attachments, teardown }: AttachmentRecord): boolean {
  return teardown === undefined || attachments.some(({ state }) => state === "attached");
}

/** What nothing can release once the record is gone. */
function lossOf(attachment: RecordedAttachment): string {
  const { displayName, ifName, state, device } = attachment;
  const addresses = addressesOf(attachment);
  const kept = [
    ...(addresses.length > 0 ? [`addresses ${addresses.join(" ")}`] : []),
    ...(state === "attached" ? ["its interface and rules on the host"] : []),
    ...(device === undefined ? [] : [`the settings of device ${device.id}`]),
  ];
  const what = kept.length > 0 ? kept.join(", ") : "what its plugins did before they failed";
  return `network ${displayName} (${ifName}, ${state}): Plexus will not release ${what}`;
}
