import type { CallContext } from "#engine/deps.ts";
import { HostGoneError, NetnsError } from "#engine/ports.ts";
import { sandboxLinks } from "#engine/sandbox.ts";

/**
 * The CNI_NETNS for the DELs of a sandbox: "" when its namespace can no longer be entered. With a
 * stale path `host-device` fails for ever and `sbr` creates a file there.
 */
export async function netnsForDel(ctx: CallContext, netns: string): Promise<string> {
  if (netns === "") return "";
  try {
    await sandboxLinks(ctx, netns);
    return netns;
  } catch (error) {
    if (error instanceof NetnsError) return "";
    if (error instanceof HostGoneError) throw error;
    ctx.logger.warn({ err: error, netns }, "the interfaces of the sandbox cannot be listed");
    return netns;
  }
}

/** Whether an interface may still exist in a namespace; false only when that is certain. */
export async function interfaceMayExist(
  ctx: CallContext,
  netns: string,
  ifName: string,
): Promise<boolean> {
  try {
    return (await sandboxLinks(ctx, netns)).some((link) => link.name === ifName);
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return !(error instanceof NetnsError);
  }
}
