import { join } from "node:path";
import { test } from "vitest";
import { nodeInterface } from "../cluster/kubernetes/addresses.ts";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { builtModule } from "../cluster/machine/go-module.ts";
import { busyboxImage } from "../cluster/machine/images.ts";
import { run } from "../cluster/machine/run.ts";
import {
  loadWhereabouts,
  prepareWhereabouts,
  whereaboutsModule,
} from "../cluster/scenarios/pages/whereabouts.ts";
import { columnsOf, expectCounts, ginkgoCounts, outputOf, type Suite } from "./suite.ts";

/**
 * Those that scale a set fail if its controller changes it between their read and their write; some wait a minute for
 * more pods than a small machine starts in it. One reads the first address of a pool that may still be empty, and then
 * panics. Both happen whatever attaches the pods.
 */
const skip = "replicas|recover from an exhausted IP pool";

/** Builds the specs, unless they are in the cache, for the nodes' interface and an image that they have. */
async function prepareSpecs(): Promise<string> {
  const built = await builtModule({
    name: "whereabouts-specs",
    module: whereaboutsModule,
    programs: {},
    tests: { specs: "./e2e" },
    edit: `cd e2e
sed -i 's|"master": "eth0"|"master": "${nodeInterface}"|' e2e_test.go util/util.go
sed -i 's|testImage = ".*"|testImage = "${busyboxImage}"|' entities/generators.go`,
  });
  return join(built, "specs");
}

/** Installs it as docs/user/networks.md does. */
async function installWhereabouts(cluster: Cluster): Promise<void> {
  await loadWhereabouts(cluster);
  const crds = join(await prepareWhereabouts(), "doc/crds");
  const script = `for file in *.yaml; do
  [ "$file" = node-slice-controller.yaml ] || sed "s/:latest/:${whereaboutsModule.split("@")[1]}/; \\$a---" "$file"
done`;
  await cluster.apply(await run(["sh", "-euc", script], { cwd: crds }));
  const installed = ["daemonset/whereabouts", "deployment/whereabouts-reconciler"];
  const system = "--namespace=kube-system";
  await cluster.kubectl("rollout", "status", system, "--timeout=120s", ...installed);
}

const suite: Suite = {
  name: "whereabouts",
  async run(cluster) {
    await installWhereabouts(cluster);
    // A tenth of the pods that the node takes.
    const size = ["NUMBER_OF_COMPUTE_NODES=1", "FILL_PERCENT_CAPACITY=10"];
    const flags = ["-ginkgo.noColor", `-ginkgo.skip=${skip}`];
    const command = cluster.administratorCommand("env", ...size, await prepareSpecs(), ...flags);
    return outputOf(command);
  },
  count: ginkgoCounts,
  expected: { Plexus: { passed: 13, failed: 0 } },
};

test.each(columnsOf(suite))("%s: as many pass as docs/reference/suites.md shows", (column) =>
  expectCounts(suite, column),
);
