import { pluginTypes } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import { type PlanContext, refuse } from "#engine/plan/problems.ts";
import type { PluginLookup } from "#engine/ports/host.ts";

/**
 * Looks up all plugins before anything is attached: without its last plugin a network would be
 * attached halfway. An ADD has them required by its first delegate's order instead.
 * @throws CniError naming each plugin that cannot be executed, unless problems are collected
 */
export async function requirePlugins(
  ctx: PlanContext,
  networks: readonly ResolvedNetwork[],
  searchPath: readonly string[],
): Promise<void> {
  const types = pluginTypes(networks);
  const lookups = await ctx.host.find(searchPath, types);
  const found = new Map(types.map((type, i) => [type, lookups[i]]));
  const problems = networks.flatMap(({ displayName, list }) =>
    list.plugins.flatMap(({ type }) => {
      const error = lookupError(type, found.get(type), searchPath);
      return error === undefined ? [] : { network: displayName, error: error.of(displayName) };
    }),
  );
  refuse(ctx, problems);
}

/** In libcni's words, which tools look for. */
function lookupError(
  type: string,
  lookup: PluginLookup | undefined,
  searchPath: readonly string[],
): CniError | undefined {
  if (lookup === undefined || lookup.outcome === "found") return undefined;
  const where = `${JSON.stringify(type)} in path [${searchPath.join(" ")}]`;
  return lookup.outcome === "missing"
    ? new CniError("PluginMissing", `failed to find plugin ${where}`)
    : new CniError("PluginRefused", `plugin ${where} may not be executed: ${lookup.message}`);
}
