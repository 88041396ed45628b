import { beforeEach, describe, expect, test } from "vitest";
import { NextPlugin } from "../../machine/next-plugin.ts";
import { recordsOf } from "../target/node-state.ts";
import { home } from "../target/objects.ts";
import { kubectlPlexus, metric } from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { eventually, isCrio, ownCluster, skipGiven } from "../target/target.ts";

/** More than four sandboxes of a pod are never attached at once. */
const sandboxesMax = 4;

/** As docs/operations/reliability.md says, at once: no DEL comes while the plugin fails. */
const detachLeftovers = [
  "env",
  "CNI_PATH=/opt/cni/bin",
  "/opt/cni/bin/plexus",
  "agent",
  "--once",
] as const;

/** The agent of a service mesh has appended its plugin to Plexus's list, and the container runtime gives up there. */
export function nextPluginScenarios(scene: () => Scene): void {
  describe("a plugin after Plexus's", () => {
    beforeEach(skipGiven);

    test("that is missing: nothing is attached, all tools say so, and the pod starts once it is installed", async (context) => {
      context.skip(
        isCrio,
        "not run: CRI-O skips such a list, as e2e/crio/next-plugin.test.ts shows",
      );
      const { target } = scene();
      await using plugin = await NextPlugin.append(ownCluster(scene()).node);
      await doctorSays(scene(), `${plugin.type}: not installed`);
      expect(await metric(target, "plexus_next_plugins_missing")).toBe(1);
      const about = ["--namespace=default", "--field-selector=involvedObject.kind=Node"];
      await eventually("the Node has an event", async () =>
        (await target.kubectl("get", "events", ...about)).includes(`${plugin.type}: not installed`),
      );
      await scene().createPod("waits", { networks: "red" });
      await scene().waitForEvent("waits", "NextPluginMissing", plugin.type);
      await tryOften(scene(), "waits", 5);
      expect(await recordsOf(target)).toEqual([]);
      expect(await scene().added("address leases")).toEqual([]);
      await explainFinds(scene(), "waits", "NextPluginMissing");
      await plugin.installWorking();
      await scene().waitForPod("waits");
      expect(await scene().networkStatus("waits")).toHaveLength(2);
      await doctorIsWell(scene());
      expect(await metric(target, "plexus_next_plugins_missing")).toBe(0);
      await scene().deletePods("waits");
    });

    test("that fails: sandboxes that the runtime forgot are over, addresses do not run out, and the pod starts after the repair", async () => {
      const { target } = scene();
      await using plugin = await NextPlugin.append(ownCluster(scene()).node);
      await plugin.installFailing();
      await scene().createPod("retried", { networks: "red" });
      // An address of each of the two networks.
      expect(await tryOften(scene(), "retried", 35)).toBeLessThanOrEqual(2 * sandboxesMax);
      expect((await recordsOf(target)).length).toBeLessThanOrEqual(sandboxesMax);
      await explainFinds(scene(), "retried", "RepeatedFailures");
      await doctorSays(scene(), "RepeatedFailures");
      const detached = (await target.inNode(detachLeftovers)).match(/: detached$/gm);
      expect(detached).toHaveLength(sandboxesMax - 1);
      await plugin.installWorking();
      await scene().waitForPod("retried");
      await target.inNode(detachLeftovers);
      expect(await recordsOf(target)).toHaveLength(1);
      await scene().deletePods("retried");
    });
  });
}

/** Lets the kubelet try so often, and returns how many addresses were in use at most. */
async function tryOften(scene: Scene, pod: string, attempts: number): Promise<number> {
  const { target } = scene;
  const add = { command: "ADD" };
  const begun = await metric(target, "plexus_cni_requests_total", add);
  let most = 0;
  await eventually(`${attempts} sandboxes of ${pod} have failed`, async () => {
    // A change of the pod wakes the kubelet, which otherwise tries five times a minute.
    await scene.kubectl("annotate", "--overwrite", "pod", pod, `plexus-e2e/at=${Date.now()}`);
    most = Math.max(most, (await scene.added("address leases")).length);
    return (await metric(target, "plexus_cni_requests_total", add)) - begun >= attempts;
  });
  return most;
}

async function explainFinds(scene: Scene, pod: string, finding: string): Promise<void> {
  const { exitCode, stdout } = await kubectlPlexus(scene.target, [
    ...["explain", "-o", "json"],
    `${home}/${pod}`,
  ]);
  expect(exitCode, stdout).toBe(1);
  expect(JSON.parse(stdout).advice.finding).toBe(finding);
}

async function doctorSays({ target }: Scene, words: string): Promise<void> {
  await eventually(`doctor says ${words}`, async () => {
    const { exitCode, stdout } = await kubectlPlexus(target, ["doctor"]);
    return exitCode === 1 && stdout.includes(words);
  });
}

async function doctorIsWell({ target }: Scene): Promise<void> {
  await eventually("doctor finds nothing", async () => {
    return (await kubectlPlexus(target, ["doctor"])).exitCode === 0;
  });
}
