import type { EngineConfig } from "#engine/config.ts";

/** The directories searched for delegates: the configured `binDir`, then the call's CNI_PATH. */
export function delegateSearchPath(
  { binDir }: Pick<EngineConfig, "binDir">,
  cniPath: readonly string[],
): string[] {
  return binDir === undefined ? [...cniPath] : extendedPath([binDir], cniPath);
}

/** The directories of `path`, then those of `more` that are not among them. */
export function extendedPath(path: readonly string[], more: readonly string[]): string[] {
  return [...new Set([...path, ...more])];
}
