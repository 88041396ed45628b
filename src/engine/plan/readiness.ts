import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { unseenPathHint } from "./plugins/unseen-path.ts";

/** Checks `readinessindicatorfile`. @throws CniError 11 while it is missing: the runtime retries */
export async function checkReadinessFile(ctx: CallContext): Promise<void> {
  const reason = await readinessFileProblem(ctx);
  if (reason !== undefined) throw new CniError("PrimaryNotReady", reason);
}

/** Why the default network is not ready by its readiness file; undefined if ready or no file. */
export async function readinessFileProblem(ctx: CallContext): Promise<string | undefined> {
  const path = ctx.config.readinessindicatorfile;
  if (path === undefined || path === "") return undefined;
  if ((await ctx.deps.confFiles.kind(path)) !== "absent") return undefined;
  const hint = unseenPathHint(ctx.deps.confFiles, path);
  return `the default network is not ready: its readiness file ${path} does not exist${hint}`;
}
