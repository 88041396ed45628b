import { afterAll, afterEach, beforeAll } from "vitest";
import { startCluster } from "../../kubernetes/cluster.ts";
import { uninstallPlexus } from "../install/uninstall.ts";
import { GivenTarget } from "./given-target.ts";
import { writePlexusImage } from "./images.ts";
import { installPlexus, plexusLogs } from "./plexus.ts";
import { Scene } from "./scene.ts";
import { isGiven, ownCluster, scenariosWanted, type Target } from "./target.ts";

/** Registers tests on a cluster. */
type Scenarios = (scene: () => Scene) => void;

/** The name of each suite on one cluster. */
export const clusterName = isGiven ? "the given cluster" : "a cluster";

/**
 * Registers tests on one cluster with Plexus. `onReleases` are those where a release of Kubernetes or containerd may
 * behave in another way: `make e2e SUITE=versions` runs them alone.
 */
export function onCluster(scenarios: readonly Scenarios[], onReleases: readonly Scenarios[]): void {
  let target: Target | undefined;
  let current: Scene | undefined;
  const scene = (): Scene => {
    if (current === undefined) {
      throw new Error("Plexus could not be installed");
    }
    return current;
  };

  beforeAll(async () => {
    target = isGiven ? await GivenTarget.start() : await startCluster();
    try {
      if (!isGiven) await ownCluster({ target }).node.loadImage(await writePlexusImage());
      await installPlexus(target);
    } catch (error) {
      console.error(await plexusLogs(target));
      throw error;
    }
    const prepared = new Scene(target);
    await prepared.prepare();
    current = prepared;
  });

  /** Every scenario must leave the node as it was; a failed one prints the logs. */
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") {
      console.error(await report(scene()));
    }
    await scene().clear();
  }, 600_000);

  afterAll(async () => {
    if (isGiven && target !== undefined) {
      await current?.remove();
      await uninstallPlexus(target);
    }
    await target?.[Symbol.asyncDispose]();
  });

  for (const register of scenariosWanted === "releases" ? onReleases : scenarios) register(scene);
}

async function report({ target }: Scene): Promise<string> {
  const pods = await target.tryKubectl("get", "pods", "--all-namespaces", "--output=wide");
  const sort = "--sort-by=.lastTimestamp";
  const events = await target.tryKubectl("get", "events", "--all-namespaces", sort);
  const newest = events.stdout.split("\n").slice(-40).join("\n");
  return [pods.stdout, newest, await plexusLogs(target)].join("\n\n");
}
