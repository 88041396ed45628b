import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { unseenPathHint } from "./unseen-path.ts";

/**
 * Refuses the call while the default network's readiness file is missing (`readinessindicatorfile`).
 * @throws CniError 11: the runtime tries again
 */
export async function checkReadinessFile(ctx: CallContext): Promise<void> {
  const reason = await readinessFileProblem(ctx);
  if (reason !== undefined) throw new CniError("PrimaryNotReady", reason);
}

/** Why the readiness file says that the default network is not ready; undefined when it is, or without such a file. */
export async function readinessFileProblem(ctx: CallContext): Promise<string | undefined> {
  const path = ctx.config.readinessindicatorfile;
  if (path === undefined || path === "") return undefined;
  if ((await ctx.deps.confFiles.kind(path)) !== "absent") return undefined;
  const hint = unseenPathHint(ctx.deps.confFiles, path);
  return `the default network is not ready: its readiness file ${path} does not exist${hint}`;
}
