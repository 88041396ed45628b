import type { CallContext } from "#engine/call/deps.ts";
import { netlinkTransport } from "#engine/call/sandbox.ts";
import { HostGoneError, NetnsError } from "#engine/ports.ts";
import { type AttachmentRecord, isOfEarlierBoot } from "#engine/record/record.ts";
import { linkExists } from "#netlink/links.ts";

/**
 * Plugins that fail in a DEL when the namespace has no interface of that name, and succeed without a namespace: nothing
 * of theirs is then left outside of it but the address, see {@link mayLeaveAddress}. A plugin is in this list only when
 * it is known to be so. Others do without a namespace what they then can, and forget the rest: `sriov` drops its notes
 * and leaves the VF as it is.
 */
const insistingOnInterface = new Set(["host-device", "vrf"]);

/** Whether a DEL of this plugin that fails because the interface is gone is to be repeated without a namespace. */
export function insistsOnInterface({ type }: { readonly type: string }): boolean {
  return insistingOnInterface.has(type);
}

/**
 * Plugins whose whole state is in the pod's namespace and goes with the interface, but whose DEL fails without either:
 * `sbr` adds rules and routes, and opens CNI_NETNS as a lock file.
 */
const onlyInNamespace = new Set(["sbr"]);

/** Whether a DEL of this plugin has nothing to do once the interface is gone, so that its failure is ignored then. */
export function leavesNothingOutside({ type }: { readonly type: string }): boolean {
  return onlyInNamespace.has(type);
}

/**
 * The CNI_NETNS for the delegates of a DEL: "" when the runtime gave none, or a path at which there is
 * no namespace of the sandbox any more. With a stale path `host-device` fails for ever and `sbr`
 * creates a file there. One that cannot be opened at the moment may still be the sandbox's.
 */
export function netnsForDel({ netnsState }: CallContext, netns: string): string {
  return netnsState === "ok" || netnsState === "unknown" ? netns : "";
}

/**
 * The CNI_NETNS for detaching a recorded sandbox that is not the call's own: "" when its namespace is
 * gone or may be another's by now. That holds for the path of a process, whose number is given again,
 * and for every path after a restart of the machine.
 */
export async function netnsOfRecord(ctx: CallContext, record: AttachmentRecord): Promise<string> {
  const { netns, ifName } = record;
  if (netns.startsWith("/proc/") || isOfEarlierBoot(record, ctx.deps.bootId())) return "";
  return (await namespaceIsGone(ctx, { netns, ifName })) ? "" : netns;
}

/** Whether there is certainly no namespace at the path any more. */
export async function namespaceIsGone(
  ctx: CallContext,
  { netns, ifName }: { readonly netns: string; readonly ifName: string },
): Promise<boolean> {
  return (await lookUp(ctx, netns, ifName)) === "no namespace";
}

/** Whether an interface is certainly gone, alone or with its namespace. */
export async function interfaceIsGone(
  ctx: CallContext,
  netns: string,
  ifName: string,
): Promise<boolean> {
  const found = await lookUp(ctx, netns, ifName);
  return found === "no namespace" || found === "no interface";
}

/** Looks for an interface; what cannot be found out for another reason is logged. */
async function lookUp(
  ctx: CallContext,
  netns: string,
  ifName: string,
): Promise<"no namespace" | "no interface" | "interface" | "unknown"> {
  if (netns === "") return "no namespace";
  try {
    return (await linkExists(netlinkTransport(ctx), netns, ifName)) ? "interface" : "no interface";
  } catch (error) {
    if (error instanceof NetnsError) return "no namespace";
    if (error instanceof HostGoneError) throw error;
    const fields = { err: error, netns, ifName };
    ctx.logger.warn(fields, "the interface cannot be looked up, so it counts as still there");
    return "unknown";
  }
}
