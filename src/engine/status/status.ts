import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import type { StatusRequest } from "#cni/plugin/request.ts";
import { checkExecutable, statusNetwork } from "#cni/runtime/chain.ts";
import { limitedRunner } from "#cni/runtime/limited-runner.ts";
import { isAtLeast } from "#cni/versions.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { networksOf } from "#engine/plan/plan-attachments.ts";
import { requirePlugins } from "#engine/plan/plugins/find-plugins.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import { readinessProblem } from "#engine/plan/readiness.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { podAnnotationsCapability } from "#npwg/object-meta.ts";

/**
 * Time for all plugins together. The kubelet counts the runtime as dead after 30 s without an
 * answer, which includes what the shim waits for plexusd, and a leftover.
 */
const pluginsMaxMs = 10_000;

/**
 * STATUS: ready when an ADD would attach a pod that requests no networks, by the code of ADD. Also
 * asks the default network's plugins that have a STATUS (CNI ≥ 1.1.0).
 * @throws CniError 50, or the plugin's 50 or 51
 */
export async function status(ctx: CallContext, request: StatusRequest): Promise<void> {
  // Whether pods can be looked up is irrelevant if the runtime describes them: those that call STATUS
  // (containerd 2, CRI-O) do if the conf asks for it.
  const isDescribed = request.conf.capabilities[podAnnotationsCapability] === true;
  const source = isDescribed ? undefined : ctx.deps.source;
  const reason =
    (await readinessProblem(ctx))?.message ??
    source?.notReadyReason() ??
    (await ctx.deps.records.problem());
  if (reason !== undefined) throw notAvailable(reason);
  try {
    await checkNetworks(ctx, request);
  } catch (error) {
    const { code, message } = asCniError(error);
    const { PluginNotAvailable, LimitedConnectivity } = CniErrorCode;
    if (code === PluginNotAvailable || code === LimitedConnectivity) throw error;
    throw notAvailable(`pods cannot be attached: ${message}`, error);
  }
}

async function checkNetworks(ctx: CallContext, request: StatusRequest): Promise<void> {
  const { networks } = await networksOf(ctx, request.conf, undefined);
  const searchPath = delegateSearchPath(ctx.config, request.path);
  await requirePlugins(ctx, networks, searchPath);
  const budget = new TimeBudget(ctx.deps.clock, pluginsMaxMs);
  const options = { searchPath, timeoutMs: ctx.config.delegateTimeoutMs };
  for (const { list, displayName } of networks.filter(({ isDefault }) => isDefault)) {
    const run = limitedRunner(ctx.delegateRunner(displayName), { budget, task: "STATUS" });
    if (isAtLeast(list.cniVersion, "1.1.0")) await statusNetwork(list, options, run);
    else for (const plugin of list.plugins) await checkExecutable(plugin.type, options, run);
  }
}

function notAvailable(reason: string, cause?: unknown): CniError {
  return new CniError("PluginNotAvailable", reason, { cause });
}
