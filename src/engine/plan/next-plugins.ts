import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";

/**
 * Refuses an ADD that the container runtime cannot complete, as a plugin after Plexus's is missing: the
 * runtime's DEL ends at that plugin, too, and what was attached would stay.
 * @throws CniError 11 naming the plugins and where they are searched
 */
export async function requireNextPlugins(
  { deps, host }: CallContext,
  path: readonly string[],
): Promise<void> {
  const types = (await deps.nextPlugins?.()) ?? [];
  if (types.length === 0) return;
  const found = await host.find(path, types);
  const missing = types.filter((_, i) => found[i]?.outcome === "missing");
  if (missing.length === 0) return;
  const message = `nothing is attached, as the container runtime would fail: ${missing.join(", ")}, which 00-plexus.conflist has after plexus, is not installed in [${path.join(" ")}]`;
  throw new CniError("NextPluginMissing", message);
}
