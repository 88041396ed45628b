import { type Result, sandboxInterfaces } from "#cni/result/result.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { inSandbox, linkNames } from "#engine/call/sandbox.ts";
import { HostGoneError } from "#engine/ports/host.ts";

/** The names of a sandbox's interfaces in the kernel; undefined when they are not known. */
export type KernelInterfaces = ReadonlySet<string> | undefined;

/** The names of the interfaces in the namespace of an ADD. @throws CniError as {@link inSandbox} */
export async function linksOfCall(ctx: CallContext, netns: string): Promise<ReadonlySet<string>> {
  if (ctx.links !== undefined) return ctx.links;
  return inSandbox(netns, () => linkNames(ctx, netns));
}

/** Lists the interfaces of a sandbox. @throws HostGoneError when the shim has gone */
export async function kernelInterfaces(ctx: CallContext, netns: string): Promise<KernelInterfaces> {
  try {
    return await linkNames(ctx, netns);
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    ctx.logger.warn(
      { err: error, netns },
      "cannot list the sandbox's interfaces: CHECK will expect every interface of the results",
    );
    return undefined;
  }
}

/** Sandbox interfaces of a user-space driver, which the kernel lacks. None if it was not listed. */
export function missingInterfaces(result: Result, kernel: KernelInterfaces): string[] {
  if (kernel === undefined) return [];
  const names = sandboxInterfaces(result).map(({ link }) => link.name);
  return names.filter((name) => !kernel.has(name));
}
