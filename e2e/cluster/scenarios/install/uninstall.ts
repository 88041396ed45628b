import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { copyChart } from "../../../release/chart.ts";
import { codeBlocks } from "../../../support/markdown.ts";
import { list } from "../../../support/networks.ts";
import { nad } from "../../../support/node/manifests.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { run } from "../../machine/run.ts";
import { expectShown, type Step, stepsOf } from "../pages/steps.ts";
import { helm, tryHelm } from "../target/helm.ts";
import { podImage } from "../target/images.ts";
import { nodeState, recordsOf } from "../target/node-state.ts";
import { both, home, networkStatus } from "../target/objects.ts";
import { folders, installPlexus, kustomize, waitForPlexus } from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { eventually, isCrio, ownCluster, skipGiven, type Target } from "../target/target.ts";

const system = "--namespace=kube-system";
const ignoreMissing = ["--ignore-not-found", "--timeout=120s"];

/** A pod with only the default network may stay. CRI-O would call Plexus to detach it later. */
const defaultOnly = "default-only";
const [leaving, staying] = isCrio ? [["attached", defaultOnly], []] : [["attached"], [defaultOnly]];

/** Returns to the cluster's primary CNI, and then to Plexus again. */
export function uninstallScenarios(scene: () => Scene): void {
  describe("uninstalling", () => {
    test("changes nothing while pods have secondary networks, restores the node after them, and allows a new installation", async (context) => {
      const { target } = scene();
      await skipWithForeignPods(context, target);
      await scene().startAttached("attached");
      await scene().startPod(defaultOnly);
      await startUninstallation(target, folders.uninstaller);
      const log = await waitForLog(target, /delete these pods.*nothing was changed/s);
      for (const name of leaving) expect(log).toContain(`${home}/${name}`);
      for (const name of staying) expect(log).not.toContain(`${home}/${name}`);
      expect(await filesOfPlexus(target)).toEqual(["00-plexus.conflist", "plexus"]);
      expect(await recordsOf(target)).toHaveLength(2);
      await scene().startAttached("meanwhile");

      await scene().deletePods("meanwhile", ...leaving);
      await startUninstallation(target, folders.uninstaller);
      await waitForUninstallation(target);
      expect(await filesOfPlexus(target)).toEqual([]);
      expect((await nodeState(target))["attachment records"]).toEqual([]);
      // The primary CNI now detaches these.
      for (const name of staying) await scene().deletePods(name);
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
      await scene().waitForNothingLeft();
      await scene().startAttached("again");
    });

    test("plexusd hands the node back when its manifests are deleted", async (context) => {
      const { target } = scene();
      await skipWithForeignPods(context, target);
      await scene().startPod("attached-by-plexus");
      // This deletes the permissions of plexusd before its DaemonSet.
      await target.kubectl("delete", "-k", join(repositoryRoot, "deploy/base"), ...ignoreMissing);
      await eventually(
        "the container runtime uses the primary CNI",
        async () => (await filesOfPlexus(target)).join() === "plexus",
      );
      const plain = await scene().startPod("attached-by-primary", { networks: "red" });
      expect(networkStatus(plain)).toEqual([]);
      // CRI-O calls the shim for the first one, which has no plexusd any more.
      await scene().deletePods("attached-by-plexus", "attached-by-primary");
      await scene().waitForNothingLeft();
      await installPlexus(target);
    });

    test("docs/operations/troubleshooting.md recovers a node whose plexusd was deleted too early", async (context) => {
      skipGiven(context);
      const { target } = scene();
      onTestFinished(() => installPlexus(target));
      await scene().startPod("web", both);
      // plexusd has recorded its event when its pod is gone.
      const untilPodsAreGone = ["--cascade=foreground", "--timeout=120s"];
      await target.kubectl(system, "delete", "daemonset", "plexus", ...untilPodsAreGone);
      for (const step of await recoverySteps()) {
        const shell = ["-euxo", "pipefail", "-c", step.text];
        const command = ownCluster({ target }).administratorCommand("bash", ...shell);
        expectShown(step, await run(command, { cwd: repositoryRoot }));
      }
      expect(await filesOfPlexus(target)).toEqual([]);
      await scene().startPod("replacement", { networks: "red" });
      expect(Object.keys(await scene().interfaces("replacement"))).toEqual(["lo", "eth0"]);
    });

    // Follows docs/operations/helm.md; afterwards Plexus is installed from the manifests again.
    test("the Helm chart installs, attaches a pod, and restores the node on uninstall", async (context) => {
      skipGiven(context);
      const { target } = scene();
      await uninstallPlexus(target);
      onTestFinished(() => installPlexus(target));
      const { directory } = ownCluster(scene());
      const chart = await copyChart(join(directory, "chart"));
      const release = ["plexus", chart, system, "--timeout=240s"];
      // The CRD is already installed, because the scenarios' networks stay.
      const values = ["--set=crds.enabled=false", `--set=test.image=${podImage}`];
      const installed = await helm(target, "install", ...release, ...values);
      expect(installed.stderr).toBe("");
      expect(installed.stdout).toContain("kubectl plexus doctor");
      await waitForPlexus(target);
      const tested = await helm(target, "test", "plexus", system, "--timeout=120s");
      expect(tested.stdout).toMatch(/TEST SUITE: +plexus-test\n.*Phase: +Succeeded/s);
      await scene().startAttached("by-the-chart");

      const uninstall = ["uninstall", "plexus", system, "--wait"];
      const refused = await tryHelm(target, ...uninstall);
      expect(refused.exitCode).toBe(1);
      expect(refused.stdout + refused.stderr).toMatch(
        new RegExp(`${target.nodeName}: .*${home}/by-the-chart.*nothing was changed`, "s"),
      );
      expect(await filesOfPlexus(target)).toEqual(["00-plexus.conflist", "plexus"]);
      await scene().deletePods("by-the-chart");
      await leaveLeftover(scene());
      const blocked = await tryHelm(target, ...uninstall);
      expect(blocked.stdout + blocked.stderr).toMatch(
        new RegExp(`${home}/leftover: its teardown failed.*kubectl plexus forget NODE`, "s"),
      );
      const kubectlPlexus = join(repositoryRoot, "deploy/kubectl-plexus");
      const forget = [kubectlPlexus, "forget", target.nodeName] as const;
      const forgotten = await run(ownCluster({ target }).administratorCommand(...forget));
      expect(forgotten).toMatch(/broken \(net1, attempted\).*leftover .*forgotten/s);
      await helm(target, ...uninstall);
      expect(await filesOfPlexus(target)).toEqual([]);
      const definitions = ["get", "network-attachment-definitions", "--all-namespaces"];
      expect(await target.kubectl(...definitions)).toContain("red");
    });
  });
}

/** Leaves a scenario out where pods of others need Plexus. */
async function skipWithForeignPods(context: TestContext, target: Target): Promise<void> {
  const { length } = await recordsOf(target);
  context.skip(length > 0, `not run: ${length} sandboxes that are not ours are attached`);
}

/** Uninstalls Plexus from a cluster without pods of the tests. */
export async function uninstallPlexus(target: Target, from = folders): Promise<void> {
  await startUninstallation(target, from.uninstaller);
  await waitForUninstallation(target);
  await deleteManifests(target, from);
}

async function deleteManifests(target: Target, from = folders): Promise<void> {
  for (const folder of [from.uninstaller, from.plexus]) {
    await target.kubectl("delete", "-k", join(repositoryRoot, folder), ...ignoreMissing);
  }
}

/** The commands of the section about a Plexus that was deleted too early, for the scenarios' pod. */
async function recoverySteps(): Promise<Step[]> {
  const page = await readFile(join(repositoryRoot, "docs/operations/troubleshooting.md"), "utf8");
  const [, after = ""] = page.split("\n## Plexus was deleted too early\n");
  const [section = ""] = after.split("\n## ");
  const steps = stepsOf(codeBlocks(section));
  expect(steps.length).toBeGreaterThan(0);
  return steps.map(({ info, text, shown }) => ({
    info,
    text: text.replace("delete pod web", `delete --namespace=${home} pod web`),
    shown: shown.map((line) => line.replace("default/web", `${home}/web`)),
  }));
}

/** Deletes a pod whose plugin always fails, so that it stays. */
async function leaveLeftover(scene: Scene): Promise<void> {
  await scene.target.inNode(["cp", "/bin/false", "/opt/cni/bin/broken"]);
  onTestFinished(() => scene.target.inNode(["rm", "/opt/cni/bin/broken"]).then());
  await scene.target.apply(nad("broken", list("broken", { type: "broken" }), { namespace: home }));
  await scene.createPod("leftover", { networks: "broken" });
  await scene.waitForEvent("leftover", "FailedCreatePodSandBox");
  await scene.kubectl("delete", "pod", "leftover", "--wait=false");
}

/** Starts the Job that checks every node, and then restores them; again if it has failed: `kubectl replace --force`. */
async function startUninstallation(target: Target, folder: string): Promise<void> {
  const former = ["job/plexus-uninstall", "daemonset/plexus-uninstall"];
  await target.kubectl(system, "delete", ...former, ...ignoreMissing);
  await target.apply(await kustomize(target, folder));
}

/** Waits until every node is restored. */
async function waitForUninstallation(target: Target): Promise<void> {
  const complete = ["wait", "--for=condition=Complete", "job/plexus-uninstall", "--timeout=290s"];
  await target.kubectl(system, ...complete);
}

/** Returns the Job's log once it has this. */
async function waitForLog(target: Target, expected: RegExp): Promise<string> {
  const read = ["logs", "job/plexus-uninstall"];
  return eventually(`the Job logs ${expected}`, async () => {
    const { stdout } = await target.tryKubectl(system, ...read);
    return expected.test(stdout) && stdout;
  });
}

/** The names of Plexus's files in the node's directories of CNI. */
export async function filesOfPlexus(target: Target): Promise<string[]> {
  const listed = await target.inNode(["ls", "/etc/cni/net.d", "/opt/cni/bin"]);
  return listed.split("\n").filter((name) => name.includes("plexus"));
}
