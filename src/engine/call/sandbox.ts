import { CniError } from "#cni/error.ts";
import { NetnsError } from "#engine/ports/host.ts";
import { NetlinkError, type NetlinkTransport } from "#netlink/codec.ts";
import { type InterfaceAddress, type Link, listAddresses, listLinks } from "#netlink/links.ts";
import type { CallContext } from "./call-context.ts";

/** The netlink transport through the call's shim. */
export function netlinkTransport(ctx: CallContext): NetlinkTransport {
  return (netns, messages) => ctx.host.netlink(netns, messages);
}

/** The interfaces of a sandbox. @throws NetnsError when it cannot be entered, else CniError 5 */
export async function sandboxLinks(ctx: CallContext, netns: string): Promise<Link[]> {
  return asIoFailure(() => listLinks(netlinkTransport(ctx), netns));
}

/** The addresses of the interfaces of a sandbox. @throws as {@link sandboxLinks} */
export async function sandboxAddresses(
  ctx: CallContext,
  netns: string,
): Promise<InterfaceAddress[]> {
  return asIoFailure(() => listAddresses(netlinkTransport(ctx), netns));
}

/** The names of the interfaces of a sandbox. @throws as {@link sandboxLinks} */
export async function linkNames(ctx: CallContext, netns: string): Promise<ReadonlySet<string>> {
  return new Set((await sandboxLinks(ctx, netns)).map(({ name }) => name));
}

/** Runs a step in a sandbox. @throws CniError 8 when it cannot be entered, 5 for kernel errors */
export async function inSandbox<T>(netns: string, step: () => Promise<T>): Promise<T> {
  try {
    return await asIoFailure(step);
  } catch (error) {
    if (!(error instanceof NetnsError)) throw error;
    const message = `cannot enter the pod's network namespace ${netns}: ${error.message}`;
    throw new CniError("InvalidNetns", message, { cause: error });
  }
}

/** Runs a step, and converts netlink errors. @throws CniError 5 */
export async function asIoFailure<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    throw new CniError("IoFailure", error.message, { cause: error });
  }
}
