import { join } from "node:path";

/** The files that plexusd writes for plexus-standalone, which serves calls without plexusd. */
export interface StandalonePaths {
  /** A directory in the state directory; readable by root only, because of the credentials. */
  readonly dir: string;
  /** The last configuration in effect. */
  readonly config: string;
  readonly nodeName: string;
  readonly kubeconfig: string;
}

/** The paths in a state directory. */
export function standalonePaths(stateDir: string): StandalonePaths {
  const dir = join(stateDir, "standalone");
  const inDir = (name: string): string => join(dir, name);
  return {
    dir,
    config: inDir("config.yaml"),
    nodeName: inDir("node-name"),
    kubeconfig: inDir("kubeconfig"),
  };
}
