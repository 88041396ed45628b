import { extendedPath } from "#cni/runtime/delegate-calls.ts";
import type { EngineConfig } from "#engine/config.ts";

/** The directories searched for delegates: the configured `binDir`, then the call's CNI_PATH. */
export function delegateSearchPath(
  { binDir }: Pick<EngineConfig, "binDir">,
  cniPath: readonly string[],
): string[] {
  return binDir === undefined ? [...cniPath] : extendedPath([binDir], cniPath);
}
