// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { releaseTool } from "../../../release/tools.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import type { Cluster } from "../../kubernetes/cluster.ts";
import { run } from "../../machine/run.ts";
import { uninstallPlexus, waitForUninstallation } from "../uninstall.ts";
import { networkStatus } from "./objects.ts";
import { installPlexus, waitForPlexus } from "./plexus.ts";
import type { Scene } from "./scene.ts";
import { ownOnly } from "./target.ts";

const chart = join(repositoryRoot, "deploy/chart");
const release = ["plexus", chart, "--namespace=kube-system", "--timeout=240s"];

/** What docs/operations/helm.md says, in place of the manifests; Plexus is back from these in the end. */
export function chartScenarios(scene: () => Scene): void {
  describe("the Helm chart", () => {
    test("installs, attaches a pod, and gives the node back before it is uninstalled", {
      timeout: 900_000,
    }, async (context) => {
      const { target } = scene();
      const { own } = target;
      if (own === undefined) return context.skip(ownOnly);
      await uninstallPlexus(target);
      try {
        await installAndUninstall(scene(), own);
      } finally {
        await installPlexus(target);
      }
    });
  });
}

async function installAndUninstall(scene: Scene, cluster: Cluster): Promise<void> {
  const { target } = scene;
  // The scenarios' networks stay, and so what defines them is there already.
  await helm(cluster, "install", ...release, "--set=crds.enabled=false", "--wait");
  await waitForPlexus(target);
  const pod = await scene.startPod("by-the-chart", { networks: "red,blue" });
  expect(networkStatus(pod)).toHaveLength(3);
  await scene.deletePods("by-the-chart");
  await scene.waitForNothingLeft();

  await helm(cluster, "upgrade", ...release, "--reset-then-reuse-values", "--set=uninstall=true");
  await waitForUninstallation(target);
  const files = await target.inNode(["ls", "/etc/cni/net.d", "/opt/cni/bin"]);
  expect(files.split("\n").filter((name) => name.includes("plexus"))).toEqual([]);
  await helm(cluster, "uninstall", "plexus", "--namespace=kube-system", "--wait");
  const definitions = ["get", "network-attachment-definitions", "--all-namespaces"];
  expect(await target.kubectl(...definitions)).toContain("red");
}

/** Runs Helm as the administrator. */
async function helm(cluster: Cluster, ...args: string[]): Promise<string> {
  return run(cluster.administratorCommand(await releaseTool("helm"), ...args));
}
