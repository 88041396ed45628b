import { join } from "node:path";

/** What plexusd keeps on the host for the calls that plexus-standalone serves while plexusd is away. */
export interface StandalonePaths {
  /** A directory inside the state directory; root's alone, as the credentials are. */
  readonly dir: string;
  /** The configuration that was in effect last. */
  readonly config: string;
  /** The name of this node's Node. */
  readonly nodeName: string;
  /** The way to the API server. */
  readonly kubeconfig: string;
}

/** Where it is kept in a state directory. */
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
