// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { repositoryRoot } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import { nodeState, recordsOf } from "./target/node-state.ts";
import { networkStatus } from "./target/objects.ts";
import { installManifest, installPlexus } from "./target/plexus.ts";
import { defaultPlexusImage } from "./target/plexus-image.ts";
import type { Scene } from "./target/scene.ts";
import { isCrio, type Target } from "./target/target.ts";

const timeout = 900_000;
const system = "--namespace=kube-system";
const uninstallPods = "--selector=app.kubernetes.io/component=uninstall";

const allowDefaultOnly = "--allow-default-only";

/** A pod of the default network alone, which need not be deleted. CRI-O would ask Plexus to detach it later. */
const stays = isCrio ? [] : ["default-only"];

/** What is changed of a DaemonSet before it is applied. */
interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly initContainers: readonly [{ readonly command: string[] }] };
    };
  };
}

/** The way back to the cluster's primary CNI, and to Plexus again. */
export function uninstallScenarios(scene: () => Scene): void {
  describe("uninstalling", () => {
    test("refuses while pods have further networks, then gives the node back; installing works again", {
      timeout,
    }, async (context) => {
      const { target } = scene();
      const foreign = await recordsOf(target);
      if (foreign.length > 0) {
        context.skip(`not run: ${foreign.length} sandboxes that are not ours are attached`);
      }
      const pod = await scene().startPod("attached", { networks: "red,blue" });
      expect(networkStatus(pod)).toHaveLength(3);
      for (const name of stays) await scene().startPod(name);
      await target.kubectl(system, "delete", "daemonset", "plexus", "--timeout=120s");
      await target.apply(await uninstallManifest(target, allowDefaultOnly));
      await waitForLog(target, /plexus-e2e\/attached.*delete these pods.*nothing was changed/s);
      expect(await confFiles(target)).toContain("00-plexus.conflist");
      expect(await recordsOf(target)).toHaveLength(1 + stays.length);

      // There is no plexusd any more: this is the shim's own doing.
      await scene().deletePods("attached");
      await waitForUninstallation(target);
      expect(await confFiles(target)).not.toContain("00-plexus.conflist");
      expect(await binaries(target)).not.toContain("plexus");
      expect((await nodeState(target))["attachment records"]).toEqual([]);
      // These are the primary CNI's to detach now.
      for (const name of stays) await scene().deletePods(name);
      await scene().waitForNothingLeft();
      await deleteManifests(target);

      const node = `node/${target.nodeName}`;
      await target.kubectl("wait", "--for=condition=Ready", node, "--timeout=60s");
      const plain = await scene().startPod("primary-only", { networks: "red" });
      expect(networkStatus(plain)).toEqual([]);
      expect(Object.keys(await scene().interfaces("primary-only"))).toEqual(["lo", "eth0"]);

      await installPlexus(target);
      // It was attached before Plexus came: its DEL must release its address nevertheless.
      await scene().deletePods("primary-only");
      await scene().waitForNothingLeft({ except: "cached results" });
      // The runtime's own cache is by the network's name, which is another one now: that entry stays.
      await scene().remember();
      const again = await scene().startPod("again", { networks: "red,blue" });
      expect(networkStatus(again)).toHaveLength(3);
    });
  });
}

/** Uninstalls Plexus from a cluster without pods of the tests. */
export async function uninstallPlexus(target: Target): Promise<void> {
  await target.kubectl(system, "delete", "daemonset", "plexus", "--ignore-not-found");
  await target.apply(await uninstallManifest(target, allowDefaultOnly));
  await waitForUninstallation(target);
  await deleteManifests(target);
}

/** deploy/uninstall, with further flags of `plexusctl uninstall`. */
async function uninstallManifest(target: Target, ...flags: string[]): Promise<object> {
  const text = await target.kubectl("kustomize", join(repositoryRoot, "deploy/uninstall"));
  const daemonSet = parse(text.replaceAll(defaultPlexusImage, target.plexusImage)) as DaemonSet;
  const [uninstall] = daemonSet.spec.template.spec.initContainers;
  uninstall.command.push(...flags);
  return daemonSet;
}

async function deleteManifests(target: Target): Promise<void> {
  const ignore = ["--ignore-not-found", "--timeout=120s"];
  await target.kubectl("delete", "-k", join(repositoryRoot, "deploy/uninstall"), ...ignore);
  await target.kubectl("delete", "-k", join(repositoryRoot, "deploy/base"), ...ignore);
  expect(await installManifest(target.plexusImage)).toContain("kind: DaemonSet");
}

/** Waits until every node is given back. */
export async function waitForUninstallation(target: Target): Promise<void> {
  const daemonset = "daemonset/plexus-uninstall";
  await target.kubectl(system, "rollout", "status", daemonset, "--timeout=400s");
}

async function waitForLog(target: Target, expected: RegExp): Promise<void> {
  const read = ["logs", uninstallPods, "--container=uninstall"];
  await waitUntil(
    `the uninstalling pod logs ${expected}`,
    async () => expected.test((await target.tryKubectl(system, ...read)).stdout),
    { timeoutMs: 120_000, intervalMs: 500 },
  );
}

async function confFiles(target: Target): Promise<string[]> {
  return (await target.inNode(["ls", "/etc/cni/net.d"])).split("\n");
}

async function binaries(target: Target): Promise<string[]> {
  return (await target.inNode(["ls", "/opt/cni/bin"])).split("\n");
}
