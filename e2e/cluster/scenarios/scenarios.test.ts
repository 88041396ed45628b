import { describe } from "vitest";
import { attachScenarios } from "./attach.ts";
import { clusterRouteScenarios } from "./cluster-routes.ts";
import { claimScenarios } from "./devices/claims.ts";
import { deviceScenarios } from "./devices/devices.ts";
import { endpointScenarios } from "./endpoints.ts";
import { explainScenarios } from "./explain.ts";
import { hotPlugScenarios } from "./hot-plug.ts";
import { loadScenarios } from "./load.ts";
import { monitoringScenarios } from "./monitoring.ts";
import { apiOutageScenario } from "./outages/api-outage.ts";
import { earlyStatusScenario } from "./outages/early-status.ts";
import { lostCrdScenario } from "./outages/lost-crd.ts";
import { nextPluginScenarios } from "./outages/next-plugin.ts";
import { networkPageScenarios } from "./pages/networks.ts";
import { securityScenarios } from "./security.ts";
import { clusterName, onCluster } from "./target/on-cluster.ts";
import { tenantScenarios } from "./tenants.ts";

const onReleases = [
  attachScenarios,
  claimScenarios,
  deviceScenarios,
  explainScenarios,
  securityScenarios,
  nextPluginScenarios,
];

/** What pods get, and what the tools say of it. */
describe(clusterName, () =>
  onCluster(
    [
      ...onReleases,
      networkPageScenarios,
      monitoringScenarios,
      apiOutageScenario,
      earlyStatusScenario,
      loadScenarios,
      lostCrdScenario,
      hotPlugScenarios,
      clusterRouteScenarios,
      endpointScenarios,
      tenantScenarios,
    ],
    onReleases,
  ),
);
