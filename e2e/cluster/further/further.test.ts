// SPDX-License-Identifier: Apache-2.0

import { afterAll, afterEach, beforeAll, describe } from "vitest";
import { chartScenarios } from "../scenarios/chart.ts";
import { deviceScenarios } from "../scenarios/devices.ts";
import { freshNodeScenarios } from "../scenarios/fresh-node.ts";
import { GivenTarget } from "../scenarios/given-target.ts";
import { OwnTarget } from "../scenarios/own-target.ts";
import { installPlexus, plexusLogs } from "../scenarios/plexus.ts";
import { Scene } from "../scenarios/scene.ts";
import { isGiven, type Target } from "../scenarios/target.ts";
import { uninstallPlexus } from "../scenarios/uninstall.ts";

describe(isGiven ? "the given cluster, further" : "a cluster, further", () => {
  let target: Target | undefined;
  let current: Scene | undefined;
  const scene = (): Scene => {
    if (current === undefined) {
      throw new Error("Plexus could not be installed");
    }
    return current;
  };

  beforeAll(async () => {
    target = isGiven ? await GivenTarget.start() : await OwnTarget.start();
    try {
      await installPlexus(target);
    } catch (error) {
      console.error(await plexusLogs(target));
      throw error;
    }
    const prepared = new Scene(target);
    await prepared.prepare();
    current = prepared;
  });

  /** Every scenario has to leave the node as it was; one that failed prints what may explain it. */
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

  deviceScenarios(scene);
  freshNodeScenarios(scene);
  chartScenarios(scene);
});

async function report({ target }: Scene): Promise<string> {
  const pods = await target.tryKubectl("get", "pods", "--all-namespaces", "--output=wide");
  const sort = "--sort-by=.lastTimestamp";
  const events = await target.tryKubectl("get", "events", "--all-namespaces", sort);
  const newest = events.stdout.split("\n").slice(-40).join("\n");
  return [pods.stdout, newest, await plexusLogs(target)].join("\n\n");
}
