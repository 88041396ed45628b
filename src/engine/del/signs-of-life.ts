import type { CallContext } from "#engine/call/call-context.ts";
import { netlinkTransport } from "#engine/call/sandbox.ts";
import { HostGoneError, NetnsError } from "#engine/ports/host.ts";
import { type AttachmentRecord, addHasEnded, byAge, calledUid } from "#engine/record/record.ts";
import { linkExists } from "#netlink/links.ts";
import { recordsAt } from "./netns-path.ts";

/*
 * Whether a sandbox whose ADD has ended is over although the container runtime has not said so.
 * Every sign of that can be wrong alone:
 * - two processes of one boot can read different boot IDs: where the node is itself a container
 *   (LXC, Incus, Proxmox), its containers have another boot ID;
 * - a pod can be deleted from the API while its node is unreachable, and a container that is no
 *   pod can have a pod's name;
 * - a process can lack the mount of a namespace that others have.
 * So two signs are needed, and one of them is always the namespace: mounts of /run do not survive a
 * boot, and a runtime removes them last.
 */

/** A runtime has one sandbox of a pod at a time. */
export const replaced = "its pod has a later sandbox";

/** Those whose pod has a later sandbox whose ADD has ended. @param bootId the present one */
export function replacedRecords(
  records: readonly AttachmentRecord[],
  bootId: string,
): AttachmentRecord[] {
  const ofPods = Map.groupBy(records, (record) => {
    const { pod } = record;
    return pod && `${pod.namespace}/${pod.name}/${calledUid(record) ?? pod.uid}`;
  });
  ofPods.delete(undefined);
  const compare = byAge(bootId);
  const isReplaced = (record: AttachmentRecord, all: readonly AttachmentRecord[]): boolean =>
    all.some(
      (each) =>
        each.containerId !== record.containerId && addHasEnded(each) && compare(each, record) > 0,
    );
  return [...ofPods.values()].flatMap((all) => all.filter((record) => isReplaced(record, all)));
}

/** Whether a sandbox that a sign calls over certainly is: its path leads to it no more. */
export async function isCertainlyOver(
  ctx: CallContext,
  record: AttachmentRecord,
): Promise<boolean> {
  return (await isNothingAt(ctx, record.netns)) || (await isOfLaterProcess(ctx, record));
}

/** Whether a later sandbox has another process at the path: the kernel has used its number again. */
export async function isOfLaterProcess(
  ctx: CallContext,
  record: AttachmentRecord,
): Promise<boolean> {
  const { netns, netnsProcess } = record;
  if (!netnsProcess) return false;
  const compare = byAge(ctx.deps.bootId());
  const { records } = await recordsAt(ctx, netns);
  return records
    .filter((each) => each.netns === netns && compare(each, record) > 0)
    .some((each) => each.netnsProcess && each.netnsProcess !== netnsProcess);
}

const einval = 22;

/**
 * Whether certainly nothing is where no namespace was found. A file that is no namespace is a doubt:
 * the namespace may be mounted there for others. Runtimes remove the file with the mount.
 */
export function isNothing(error: unknown): boolean {
  return error instanceof NetnsError && error.errno !== einval;
}

/** Whether certainly nothing is at the path of a sandbox's namespace. */
export async function isNothingAt(ctx: CallContext, netns: string): Promise<boolean> {
  if (netns === "") return true;
  try {
    await linkExists(netlinkTransport(ctx), netns, "lo");
    return false;
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return isNothing(error);
  }
}
