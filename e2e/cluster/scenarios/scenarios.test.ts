import { afterAll, afterEach, beforeAll, describe } from "vitest";
import { startCluster } from "../kubernetes/cluster.ts";
import { attachScenarios } from "./attach.ts";
import { clusterRouteScenarios } from "./cluster-routes.ts";
import { claimScenarios } from "./devices/claims.ts";
import { deviceScenarios } from "./devices/devices.ts";
import { endpointScenarios } from "./endpoints.ts";
import { explainScenarios } from "./explain.ts";
import { freshNodeScenarios } from "./fresh-node.ts";
import { hotPlugScenarios } from "./hot-plug.ts";
import { chartScenarios } from "./install/chart.ts";
import { installScenarios } from "./install/install.ts";
import { overlayScenarios } from "./install/overlays.ts";
import { uninstallPlexus, uninstallScenarios } from "./install/uninstall.ts";
import { loadScenarios } from "./load.ts";
import { monitoringScenarios } from "./monitoring.ts";
import { apiOutageScenario } from "./outages/api-outage.ts";
import { earlyStatusScenario } from "./outages/early-status.ts";
import { lostCrdScenario } from "./outages/lost-crd.ts";
import { nextPluginScenarios } from "./outages/next-plugin.ts";
import { outageScenarios } from "./outages/outage.ts";
import { networkPageScenarios } from "./pages/networks.ts";
import { placementScenarios } from "./placement.ts";
import { securityScenarios } from "./security.ts";
import { GivenTarget } from "./target/given-target.ts";
import { writePlexusImage } from "./target/images.ts";
import { installPlexus, plexusLogs } from "./target/plexus.ts";
import { Scene } from "./target/scene.ts";
import { isGiven, ownCluster, type Target } from "./target/target.ts";
import { tenantScenarios } from "./tenants.ts";
import { thinScenarios } from "./thin.ts";

const scenarios = [
  installScenarios,
  attachScenarios,
  claimScenarios,
  deviceScenarios,
  explainScenarios,
  networkPageScenarios,
  monitoringScenarios,
  apiOutageScenario,
  earlyStatusScenario,
  securityScenarios,
  nextPluginScenarios,
  loadScenarios,
  outageScenarios,
  lostCrdScenario,
  hotPlugScenarios,
  clusterRouteScenarios,
  endpointScenarios,
  tenantScenarios,
  thinScenarios,
  freshNodeScenarios,
  placementScenarios,
  uninstallScenarios,
  chartScenarios,
  overlayScenarios,
];

/** Where a release of Kubernetes or containerd may behave in another way: `make e2e SUITE=versions` runs them alone. */
const ofReleases = [
  installScenarios,
  attachScenarios,
  claimScenarios,
  deviceScenarios,
  explainScenarios,
  securityScenarios,
  placementScenarios,
  nextPluginScenarios,
  outageScenarios,
  uninstallScenarios,
];

const onlyReleases = process.env.PLEXUS_E2E_SCENARIOS === "releases";

describe(isGiven ? "the given cluster" : "a cluster", () => {
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

  for (const register of onlyReleases ? ofReleases : scenarios) register(scene);
});

async function report({ target }: Scene): Promise<string> {
  const pods = await target.tryKubectl("get", "pods", "--all-namespaces", "--output=wide");
  const sort = "--sort-by=.lastTimestamp";
  const events = await target.tryKubectl("get", "events", "--all-namespaces", sort);
  const newest = events.stdout.split("\n").slice(-40).join("\n");
  return [pods.stdout, newest, await plexusLogs(target)].join("\n\n");
}
