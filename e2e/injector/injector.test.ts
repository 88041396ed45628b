import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster/kubernetes/cluster.ts";
import { installMultus, loadMultusImages } from "../cluster/scenarios/pages/multus.ts";
import { writePlexusImage } from "../cluster/scenarios/target/images.ts";
import { installPlexus } from "../cluster/scenarios/target/plexus.ts";
import { repositoryRoot } from "../support/paths.ts";
import { installInjector, runSpecs } from "./injector.ts";

/** What attaches the pods of the specs. */
const installers = {
  async Plexus(cluster: Cluster): Promise<void> {
    await cluster.node.loadImage(await writePlexusImage());
    await installPlexus(cluster);
  },
  async Multus(cluster: Cluster): Promise<void> {
    await loadMultusImages(cluster);
    await installMultus(cluster, "thick");
  },
  async "the primary network alone"(cluster: Cluster): Promise<void> {
    await cluster.kubectl("apply", "--filename", join(repositoryRoot, "crds"));
  },
};

describe.each(Object.entries(installers))("network-resources-injector with %s", (_, install) => {
  let cluster: Cluster | undefined;

  beforeAll(async () => {
    cluster = await startCluster();
    await install(cluster);
    await installInjector(cluster);
  });

  afterAll(() => cluster?.[Symbol.asyncDispose]());

  test("its 17 specs about resources and nodes pass", async () => {
    if (cluster === undefined) throw new Error("the cluster could not be started");
    expect(await runSpecs(cluster)).toContain("17 Passed | 0 Failed");
  });
});
