import { join } from "node:path";

export type StandalonePaths = ReturnType<typeof standalonePaths>;

/**
 * The files in a state directory that plexusd writes for plexus-standalone, which serves calls
 * without plexusd. Their directory is readable by root only, because of the credentials.
 */
export function standalonePaths(stateDir: string) {
  const dir = join(stateDir, "standalone");
  return {
    dir,
    /** The last configuration in effect. */
    config: join(dir, "config.yaml"),
    nodeName: join(dir, "node-name"),
    kubeconfig: join(dir, "kubeconfig"),
  };
}
