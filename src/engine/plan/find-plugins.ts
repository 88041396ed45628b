import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { PluginLookup } from "#engine/ports.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";

/**
 * Makes sure that every plugin of the networks can be executed, before anything is attached: a network
 * whose last plugin is missing would otherwise be attached halfway and have to be undone by a chain
 * that is incomplete. IPAM plugins are not looked up, as some plugins have theirs built in.
 * @throws CniError 999 naming every network and plugin that cannot be executed, and why
 */
export async function checkPluginsExist(
  ctx: CallContext,
  networks: readonly ResolvedNetwork[],
  searchPath: readonly string[],
): Promise<void> {
  const types = [...new Set(networks.flatMap(({ list }) => list.plugins.map(({ type }) => type)))];
  const lookups = await ctx.host.find(searchPath, types);
  const found = new Map(types.map((type, i) => [type, lookups[i]]));
  const problems = networks.flatMap(({ displayName, list }) =>
    list.plugins.flatMap(({ type }) => {
      const problem = problemOf(type, found.get(type), searchPath);
      return problem === undefined ? [] : [`network ${displayName}: ${problem}`];
    }),
  );
  if (problems.length === 0) return;
  throw new CniError(CniErrorCode.Internal, [...new Set(problems)].join("; "));
}

/** In libcni's words, which tools look for. */
function problemOf(
  type: string,
  lookup: PluginLookup | undefined,
  searchPath: readonly string[],
): string | undefined {
  if (lookup === undefined || lookup.outcome === "found") return undefined;
  const directories = `[${searchPath.join(" ")}]`;
  if (lookup.outcome === "missing") {
    return `failed to find plugin ${JSON.stringify(type)} in path ${directories}`;
  }
  return `plugin ${JSON.stringify(type)} in path ${directories} may not be executed: ${lookup.message}`;
}
