import { afterAll, afterEach, beforeAll, describe } from "vitest";
import { plexusLogs } from "../scenarios/target/plexus.ts";
import { dhcpScenarios } from "./dhcp.ts";
import { handBackScenarios } from "./hand-back.ts";
import { inventoryScenarios } from "./inventory.ts";
import { joinScenarios } from "./joining.ts";
import { Lab } from "./lab.ts";
import { labelScenarios } from "./labels.ts";
import { networkTestScenarios } from "./network-test.ts";
import { networkScenarios } from "./networks.ts";
import { updateScenarios } from "./update.ts";

/** The scenarios build on each other: the first starts with two nodes without Plexus. */
describe("a cluster of two nodes", () => {
  let started: Lab | undefined;
  const lab = (): Lab => {
    if (started === undefined) throw new Error("the cluster could not be started");
    return started;
  };

  beforeAll(async () => {
    started = await Lab.start();
  });

  /** Every scenario must leave both nodes as they were. */
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") console.error(await plexusLogs(lab().cluster));
    await lab().one.clear();
    await lab().two.waitForNothingLeft();
  }, 600_000);

  afterAll(async () => started?.[Symbol.asyncDispose]());

  labelScenarios(lab);
  networkScenarios(lab);
  dhcpScenarios(lab);
  networkTestScenarios(lab);
  inventoryScenarios(lab);
  updateScenarios(lab);
  joinScenarios(lab);
  handBackScenarios(lab);
});
