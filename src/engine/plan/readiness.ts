import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { unseenPathHint } from "#engine/ports/host.ts";

/**
 * Why the default network is not ready by `readinessindicatorfile`: CniError 11, with which the
 * runtime retries; undefined if it is ready, or there is no such file.
 */
export async function readinessProblem(ctx: CallContext): Promise<CniError | undefined> {
  const path = ctx.config.readinessindicatorfile;
  if (path === undefined || path === "") return undefined;
  if ((await ctx.deps.confFiles.kind(path)) !== "absent") return undefined;
  const hint = unseenPathHint(ctx.deps.confFiles, path);
  const message = `the default network is not ready: its readiness file ${path} does not exist${hint}`;
  return new CniError("PrimaryNotReady", message);
}
