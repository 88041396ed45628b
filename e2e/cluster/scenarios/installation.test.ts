import { describe } from "vitest";
import { freshNodeScenarios } from "./fresh-node.ts";
import { chartScenarios } from "./install/chart.ts";
import { installScenarios } from "./install/install.ts";
import { overlayScenarios } from "./install/overlays.ts";
import { uninstallScenarios } from "./install/uninstall.ts";
import { outageScenarios } from "./outages/outage.ts";
import { placementScenarios } from "./placement.ts";
import { clusterName, onCluster } from "./target/on-cluster.ts";
import { thinScenarios } from "./thin.ts";

const onReleases = [installScenarios, outageScenarios, placementScenarios, uninstallScenarios];

/** What comes to a node, and what an outage, an upgrade or an uninstallation leaves on it. */
describe(clusterName, () =>
  onCluster(
    [...onReleases, thinScenarios, freshNodeScenarios, chartScenarios, overlayScenarios],
    onReleases,
  ),
);
