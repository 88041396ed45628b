import { parseResult } from "#cni/result/parse.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import {
  inSandbox,
  netlinkTransport,
  sandboxAddresses,
  sandboxLinks,
} from "#engine/call/sandbox.ts";
import { isMadeOnce, isOfProcess, recordsAt, type UnusableRecord } from "#engine/del/netns-path.ts";
import { attachmentsToDetach } from "#engine/del/planned-dels.ts";
import { HostGoneError, NetnsError } from "#engine/ports/host.ts";
import {
  type AttachmentRecord,
  byAge,
  isSame,
  mayRun,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import { linkExists } from "#netlink/links.ts";
import { addressesOf } from "#npwg/network-status.ts";
import { isPresent } from "./own-interfaces.ts";

/**
 * Plugins whose DEL fails when the interface is gone, but succeeds without a namespace and then
 * leaves nothing on the host except the address, see `mayLeaveAddress()`. Only add plugins that
 * are known to behave so. Others skip what needs the namespace and forget it: `sriov` drops its
 * state and does not reset the VF.
 */
export const insistingOnInterface: ReadonlySet<string> = new Set(["host-device", "vrf"]);

/**
 * Plugins whose state is all in the pod's namespace and disappears with the interface, but whose
 * DEL fails without either: `sbr` adds rules and routes, and opens CNI_NETNS as a lock file.
 */
export const leavingNothingOutside: ReadonlySet<string> = new Set(["sbr"]);

type SandboxInterface = Pick<AttachmentRecord, "netns" | "ifName">;
interface SandboxAtPath extends Pick<AttachmentRecord, "containerId" | "netns" | "ifName"> {
  /** Its other interfaces, without a record that names them. @default none */
  readonly furtherNames?: readonly string[];
}

/**
 * The CNI_NETNS for the delegates of a DEL: "" when the runtime gave none, or the sandbox's
 * namespace is gone. With a stale path `host-device` always fails, and `sbr` creates a file there.
 * A namespace that cannot be opened at the moment may still be the sandbox's.
 *
 * A path may be another sandbox's by now: the runtime has used it again, and repeats a DEL. The path
 * of a process leads to another container's namespace once the kernel has used the
 * process's number again. It counts as gone unless the record proves that it is the process of the
 * ADD. Without a record, or with one of an earlier release, nothing proves that.
 */
export async function netnsForDel(
  ctx: CallContext,
  sandbox: SandboxAtPath,
  record?: AttachmentRecord,
): Promise<string> {
  const { netnsState, netnsProcess } = ctx;
  const { netns } = sandbox;
  if (netns === "" || (netnsState !== "ok" && netnsState !== "unknown")) return "";
  if (netnsProcess !== undefined)
    return netnsProcess !== "" && netnsProcess === record?.netnsProcess ? netns : "";
  const own = record?.netns === netns ? record : undefined;
  if (own?.netnsProcess !== undefined) return "";
  return (await isOfAnother(ctx, sandbox, record)) ? "" : netns;
}

/**
 * Whether another sandbox has the namespace at the path, see {@link othersAt}. In doubt it has, if its
 * record cannot be used. The interface then goes with the namespace.
 */
async function isOfAnother(
  ctx: CallContext,
  sandbox: SandboxAtPath,
  record: AttachmentRecord | undefined,
): Promise<boolean> {
  const { containerId, netns } = sandbox;
  const { isAnothers, unusable } = await othersAt(ctx, sandbox, record);
  if (isAnothers) return true;
  const doubt = unusable.find((each) => each.containerId !== containerId);
  if (doubt === undefined) return false;
  const problem = "plugins get no namespace in a DEL, as it may be that of an unusable record";
  ctx.logger.warn({ containerId, netns, reason: doubt.reason }, problem);
  return true;
}

/**
 * Whether another sandbox that may run is recorded with the namespace at the path, and with an
 * interface of the same name: one that was attached later, or any if nothing says that the namespace
 * was ever this sandbox's. In doubt it was: if only the other record is of the present boot, as after
 * a reboot with a wrong date. Also returns the records at the path that cannot be used.
 */
export async function othersAt(
  ctx: CallContext,
  { ifName, netns, furtherNames = [] }: Omit<SandboxAtPath, "containerId">,
  record: AttachmentRecord | undefined,
): Promise<{ isAnothers: boolean; unusable: readonly UnusableRecord[] }> {
  if (record?.netns === netns && isMadeOnce(netns)) return { isAnothers: false, unusable: [] };
  const bootId = ctx.deps.bootId();
  const compare = byAge(bootId);
  const recordedNames = (record?.attachments ?? []).map((each) => each.ifName);
  const names = [ifName, ...furtherNames, ...recordedNames];
  const { records, unusable } = await recordsAt(ctx, netns);
  const isOwn = record?.netns === netns || records.some((each) => isSame(each, record));
  const earlier = isOwn ? record : undefined;
  const isLater = (each: AttachmentRecord): boolean =>
    earlier === undefined ||
    compare(each, earlier) > 0 ||
    (each.bootId === bootId && earlier.bootId !== bootId);
  const mayHave = (each: AttachmentRecord): boolean =>
    mayRun(each) && each.attachments.some((attachment) => names.includes(attachment.ifName));
  return { isAnothers: records.some((each) => mayHave(each) && isLater(each)), unusable };
}

/**
 * The CNI_NETNS for detaching a sandbox that is not the call's: "" when its namespace is gone, or
 * its path may now be another one's. The kernel uses a process ID again.
 */
export async function netnsOfRecord(ctx: CallContext, record: AttachmentRecord): Promise<string> {
  if (isOfProcess(record) || (await namespaceIsGone(ctx, record))) return "";
  return (await isNetnsOf(ctx, record)) ? record.netns : "";
}

/**
 * Whether the namespace at a sandbox's path is certainly the sandbox's. A runtime uses a path again:
 * after a reboot, or as soon as the namespace is removed. A container that Plexus does not know may
 * have it, so an interface with the recorded name and MAC address has to be there. That is not
 * enough, because ipvlan and VLAN interfaces have the address of their parent. Of a pod that the API
 * server calls running, the recorded IP addresses do, too: plugins report a wrong MAC address, and
 * pods change theirs.
 */
export async function isNetnsOf(
  ctx: CallContext,
  record: AttachmentRecord,
  onWrongMac?: () => void,
): Promise<boolean> {
  const { netns } = record;
  if (isMadeOnce(netns)) return true;
  const links = await inSandbox(netns, () => sandboxLinks(ctx, netns));
  const left = attachmentsToDetach(record, ctx.deps.bootId());
  let isThere = left.some((each) => isPresent(each, links));
  if (!isThere && onWrongMac !== undefined) {
    onWrongMac();
    isThere = await hasAddresses(ctx, netns, left);
  }
  return isThere && !(await isOfAnother(ctx, record, record));
}

/** Whether an attachment's addresses are in the namespace, all of them. */
async function hasAddresses(
  ctx: CallContext,
  netns: string,
  attachments: readonly RecordedAttachment[],
): Promise<boolean> {
  const present = await inSandbox(netns, () => sandboxAddresses(ctx, netns));
  const isThere = (ip: string): boolean => present.some(({ address }) => address === ip);
  return attachments.some(({ result }) => {
    const addresses = [
      ...addressesOf(parseResult(result, { fallbackVersion: "" })).values(),
    ].flat();
    return addresses.length > 0 && addresses.every(isThere);
  });
}

/** Whether there is certainly no namespace at the path anymore. */
export async function namespaceIsGone(ctx: CallContext, of: SandboxInterface): Promise<boolean> {
  return (await lookUp(ctx, of)) === "no namespace";
}

/** Whether an interface is certainly gone, alone or with its namespace. */
export async function interfaceIsGone(ctx: CallContext, of: SandboxInterface): Promise<boolean> {
  return ["no namespace", "no interface"].includes(await lookUp(ctx, of));
}

/** Whether an interface certainly exists. */
export async function interfaceIsPresent(ctx: CallContext, of: SandboxInterface): Promise<boolean> {
  return (await lookUp(ctx, of)) === "interface";
}

async function lookUp(
  ctx: CallContext,
  { netns, ifName }: SandboxInterface,
): Promise<"no namespace" | "no interface" | "interface" | "unknown"> {
  if (netns === "") return "no namespace";
  try {
    return (await linkExists(netlinkTransport(ctx), netns, ifName)) ? "interface" : "no interface";
  } catch (error) {
    if (error instanceof NetnsError) return "no namespace";
    if (error instanceof HostGoneError) throw error;
    const fields = { err: error, netns, ifName };
    ctx.logger.warn(fields, "cannot look up the interface, which therefore counts as present");
    return "unknown";
  }
}
