import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { recordsOf, waitForRecords } from "../target/node-state.ts";
import { both, networkStatus } from "../target/objects.ts";
import {
  kubectlPlexus,
  nodeReady,
  parkPlexus,
  unparkPlexus,
  waitForPlexus,
  waitForReady,
} from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { eventually, isCrio, ownCluster, skipGiven, skipWithoutStatus } from "../target/target.ts";

/** plexusd or the whole node becomes unavailable while pods run. */
export function outageScenarios(scene: () => Scene): void {
  describe("an outage", () => {
    beforeEach(skipGiven);

    test("of plexusd keeps new pods waiting, the node stays ready, and doctor reports a node without plexusd", async () => {
      const { target } = scene();
      await scene().startPod("before", both);
      await parkPlexus(target);
      onTestFinished(async () => unparkPlexus(target));
      await scene().createPod("waits", both);
      const event = await scene().waitForEvent("waits", "FailedCreatePodSandBox");
      expect(event.message).toMatch(/plexus/);
      const { exitCode, stdout } = await kubectlPlexus(target, ["doctor"]);
      expect(exitCode, stdout).toBe(1);
      expect(stdout).toContain(`PROBLEM  plexusd  plexusd has no pod on node ${target.nodeName}`);
      // The primary's configuration has cniVersion 1.0.0, which has no STATUS for the runtime to call.
      expect(await nodeReady(target)).toBe("True");
      await scene().deletePods("before");
      await waitForRecords(target, 0);
      await unparkPlexus(target);
      await waitForPlexus(target);
      await scene().waitForPod("waits");
      expect(await scene().networkStatus("waits")).toHaveLength(3);
    });

    test("of plexusd with CNI 1.1 makes the node not ready until plexusd is back", async (context) => {
      const { target } = scene();
      await skipWithoutStatus(context, target);
      await usePrimaryVersion(scene(), "1.1.0");
      onTestFinished(async () => usePrimaryVersion(scene(), "1.0.0"));
      await parkPlexus(target);
      onTestFinished(async () => unparkPlexus(target));
      // CRI-O calls STATUS when it starts, until the first success.
      if (isCrio) await ownCluster(scene()).node.restartRuntime();
      await waitForReady(target, "False");
      await unparkPlexus(target);
      await waitForPlexus(target);
      await scene().startPod("with-1.1", both);
    });

    test("of the node: after a reboot, pods get their networks again and nothing stale is left", async () => {
      const { target } = scene();
      const names = ["first", "second"];
      for (const name of names) await scene().startPod(name, both);
      const before = await recordsOf(target);
      await ownCluster(scene()).rebootNode();
      await waitForPlexus(target);
      for (const name of names) {
        await waitForRestart(scene(), name);
        const [eth0, net1, net2] = networkStatus(await scene().pod(name));
        expect(await scene().interfaces(name)).toEqual({
          lo: "127.0.0.1/8",
          eth0: `${eth0?.ips?.[0]}/24`,
          net1: `${net1?.ips?.[0]}/24`,
          net2: `${net2?.ips?.[0]}/24`,
        });
      }
      await waitForRecords(target, names.length);
      expect((await recordsOf(target)).filter((name) => before.includes(name))).toEqual([]);
      const leases = await scene().added("address leases");
      expect(leases.filter((path) => path.includes("/red/"))).toHaveLength(names.length);
    });
  });
}

/** Changes the primary CNI's version as its upgrade would, and waits until plexusd follows. */
async function usePrimaryVersion(scene: Scene, cniVersion: string): Promise<void> {
  const { node } = ownCluster(scene);
  const primary = join(node.cniConfDir, "10-primary.conflist");
  const conf = JSON.parse(await readFile(primary, "utf8"));
  await writeFile(primary, JSON.stringify({ ...conf, cniVersion }, undefined, 2));
  const own = join(node.cniConfDir, "00-plexus.conflist");
  await eventually(
    `00-plexus.conflist has cniVersion ${cniVersion}`,
    async () => JSON.parse(await readFile(own, "utf8")).cniVersion === cniVersion,
  );
}

/** Waits until a pod's container runs again after a reboot. */
async function waitForRestart(scene: Scene, name: string): Promise<void> {
  await eventually(`pod ${name} runs again`, async () => {
    const { conditions = [], containerStatuses = [] } = (await scene.pod(name)).status;
    const ready = conditions.some(({ type, status }) => type === "Ready" && status === "True");
    return ready && (containerStatuses[0]?.restartCount ?? 0) > 0;
  });
}
