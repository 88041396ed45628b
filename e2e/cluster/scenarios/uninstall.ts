// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { releaseTool } from "../../release/tools.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { run } from "../machine/run.ts";
import { nodeState, recordsOf } from "./target/node-state.ts";
import { networkStatus } from "./target/objects.ts";
import { installPlexus, kustomize, waitForPlexus } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, isCrio, ownCluster, skipGiven, type Target } from "./target/target.ts";

const system = "--namespace=kube-system";
const uninstallPods = "--selector=app.kubernetes.io/component=uninstall";

const release = ["plexus", join(repositoryRoot, "deploy/chart"), ...[system, "--timeout=240s"]];

const allowDefaultOnly = "--allow-default-only";

/** A pod with only the default network, which may stay. CRI-O would call Plexus to detach it later. */
const stays = isCrio ? [] : ["default-only"];

/** The part of a DaemonSet that is changed before it is applied. */
interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly initContainers: readonly [{ readonly command: string[] }] };
    };
  };
}

/** Returns to the cluster's primary CNI, and then to Plexus again. */
export function uninstallScenarios(scene: () => Scene): void {
  describe("uninstalling", () => {
    test("waits until pods with secondary networks are deleted, restores the node, and allows a new installation", async (context) => {
      const { target } = scene();
      const foreign = await recordsOf(target);
      const reason = `not run: ${foreign.length} sandboxes that are not ours are attached`;
      context.skip(foreign.length > 0, reason);
      const pod = await scene().startPod("attached", { networks: "red,blue" });
      expect(networkStatus(pod)).toHaveLength(3);
      for (const name of stays) await scene().startPod(name);
      await target.kubectl(system, "delete", "daemonset", "plexus", "--timeout=120s");
      await target.apply(await uninstallManifest(target, allowDefaultOnly));
      await waitForLog(target, /plexus-e2e\/attached.*delete these pods.*nothing was changed/s);
      expect(await filesOfPlexus(target)).toEqual(["00-plexus.conflist", "plexus"]);
      expect(await recordsOf(target)).toHaveLength(1 + stays.length);

      // plexusd is gone; the shim detaches this pod alone.
      await scene().deletePods("attached");
      await waitForUninstallation(target);
      expect(await filesOfPlexus(target)).toEqual([]);
      expect((await nodeState(target))["attachment records"]).toEqual([]);
      // The primary CNI now detaches these.
      for (const name of stays) await scene().deletePods(name);
      await scene().waitForNothingLeft();
      await deleteManifests(target);

      const node = `node/${target.nodeName}`;
      await target.kubectl("wait", "--for=condition=Ready", node, "--timeout=60s");
      const plain = await scene().startPod("primary-only", { networks: "red" });
      expect(networkStatus(plain)).toEqual([]);
      expect(Object.keys(await scene().interfaces("primary-only"))).toEqual(["lo", "eth0"]);

      await installPlexus(target);
      // It was attached without Plexus; its DEL must release its address nevertheless.
      await scene().deletePods("primary-only");
      await scene().waitForNothingLeft({ except: "cached results" });
      // The runtime's cache is keyed by the network's name, which has changed, so that entry stays.
      await scene().remember();
      const again = await scene().startPod("again", { networks: "red,blue" });
      expect(networkStatus(again)).toHaveLength(3);
    });

    // Follows docs/operations/helm.md; afterwards Plexus is installed from the manifests again.
    test("the Helm chart installs, attaches a pod, and restores the node on uninstall", async (context) => {
      skipGiven(context);
      const { target } = scene();
      await uninstallPlexus(target);
      onTestFinished(() => installPlexus(target));
      // The CRD is already installed, because the scenarios' networks stay.
      await helm(target, "install", ...release, "--set=crds.enabled=false", "--wait");
      await waitForPlexus(target);
      const pod = await scene().startPod("by-the-chart", { networks: "red,blue" });
      expect(networkStatus(pod)).toHaveLength(3);
      await scene().deletePods("by-the-chart");
      await scene().waitForNothingLeft();

      await helm(
        target,
        "upgrade",
        ...release,
        "--reset-then-reuse-values",
        "--set=uninstall=true",
      );
      await waitForUninstallation(target);
      expect(await filesOfPlexus(target)).toEqual([]);
      await helm(target, "uninstall", "plexus", system, "--wait");
      const definitions = ["get", "network-attachment-definitions", "--all-namespaces"];
      expect(await target.kubectl(...definitions)).toContain("red");
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
  const daemonSet = parse(await kustomize(target, "deploy/uninstall")) as DaemonSet;
  const [uninstall] = daemonSet.spec.template.spec.initContainers;
  uninstall.command.push(...flags);
  return daemonSet;
}

async function deleteManifests(target: Target): Promise<void> {
  const ignore = ["--ignore-not-found", "--timeout=120s"];
  await target.kubectl("delete", "-k", join(repositoryRoot, "deploy/uninstall"), ...ignore);
  await target.kubectl("delete", "-k", join(repositoryRoot, "deploy/base"), ...ignore);
}

/** Waits until every node is restored. */
async function waitForUninstallation(target: Target): Promise<void> {
  const daemonset = "daemonset/plexus-uninstall";
  await target.kubectl(system, "rollout", "status", daemonset, "--timeout=400s");
}

async function waitForLog(target: Target, expected: RegExp): Promise<void> {
  const read = ["logs", uninstallPods, "--container=uninstall"];
  await eventually(`the uninstalling pod logs ${expected}`, async () =>
    expected.test((await target.tryKubectl(system, ...read)).stdout),
  );
}

/** The names of Plexus's files in the node's directories of CNI. */
async function filesOfPlexus(target: Target): Promise<string[]> {
  const listed = await target.inNode(["ls", "/etc/cni/net.d", "/opt/cni/bin"]);
  return listed.split("\n").filter((name) => name.includes("plexus"));
}

/** Runs Helm as the administrator. */
async function helm(target: Target, ...args: string[]): Promise<string> {
  return run(ownCluster({ target }).administratorCommand(await releaseTool("helm"), ...args));
}
