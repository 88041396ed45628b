import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import type { StatusRequest } from "#cni/plugin/request.ts";
import { statusNetwork, versionOf } from "#cni/runtime/chain.ts";
import { isAtLeast } from "#cni/versions.ts";
import type { CallContext } from "#engine/deps.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import { readinessFileProblem } from "#engine/plan/readiness.ts";
import { delegateSearchPath } from "#engine/search-path.ts";

/**
 * STATUS: ready only when pods can be resolved and the default network's configuration is found
 * and valid, its plugins exist and those that have a STATUS (CNI ≥ 1.1.0) agree.
 * @throws CniError 50, or the plugin's 50 or 51
 */
export async function status(ctx: CallContext, request: StatusRequest): Promise<void> {
  const reason = ctx.deps.source?.notReadyReason() ?? (await readinessFileProblem(ctx));
  if (reason !== undefined) throw notAvailable(reason);
  try {
    await checkDefaultNetwork(ctx, request);
  } catch (error) {
    const { code, message } = asCniError(error);
    const known =
      code === CniErrorCode.PluginNotAvailable || code === CniErrorCode.LimitedConnectivity;
    if (known) throw error;
    throw new CniError(
      CniErrorCode.PluginNotAvailable,
      `the cluster default network is not ready: ${message}`,
      { cause: error },
    );
  }
}

async function checkDefaultNetwork(ctx: CallContext, request: StatusRequest): Promise<void> {
  const { list, displayName } = await defaultNetwork(ctx);
  const options = {
    searchPath: delegateSearchPath(ctx.config, request.path),
    timeoutMs: ctx.config.delegateTimeoutMs,
  };
  const run = ctx.delegateRunner(displayName);
  if (isAtLeast(list.cniVersion, "1.1.0")) return statusNetwork(list, options, run);
  for (const plugin of list.plugins) await versionOf(plugin.type, options, run);
}

function notAvailable(reason: string): CniError {
  return new CniError(CniErrorCode.PluginNotAvailable, reason);
}
