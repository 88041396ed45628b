// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { recordsOf } from "./target/node-state.ts";
import { home, networkStatus, type PodObject } from "./target/objects.ts";
import { installPlexus, plexusdPid, plexusPod, waitForPlexus } from "./target/plexus.ts";
import { nextPlexusImage, writeNextPlexusImage } from "./target/plexus-image.ts";
import type { Scene } from "./target/scene.ts";
import { isGiven, ownOnly, type Target } from "./target/target.ts";

const timeout = 900_000;
const system = "--namespace=kube-system";
const restart = ["rollout", "restart", "daemonset/plexus"];

/** Many pods, and plexusd replaced or killed under them: no ADD and no DEL may be lost. */
export function loadScenarios(scene: () => Scene): void {
  describe("under load", () => {
    test("30 pods of a Deployment come with two networks each, and go", { timeout }, async () => {
      await createDeployment(scene(), 30);
      await scene().kubectl("rollout", "status", "deployment/many", "--timeout=600s");
      const { items } = await scene().get<{ items: PodObject[] }>("pods", "--selector=app=many");
      const addresses = items.map((pod) => networkStatus(pod).map((entry) => entry.ips?.[0]));
      expect(addresses.map((each) => each.length)).toEqual(Array(30).fill(3));
      expect(new Set(addresses.flat()).size).toBe(90);
      expect(
        (await scene().added("attachment records")).filter((name) => name.endsWith(".record"))
          .length,
      ).toBe(30);
      await scene().kubectl("delete", "deployment", "many");
      await scene().kubectl("wait", "--for=delete", "pod", "--selector=app=many", "--timeout=600s");
      await scene().waitForNothingLeft();
    });

    test("a rolling update loses no ADD and no DEL", { timeout }, async () => {
      const { target } = scene();
      const before = await plexusPod(target);
      let updating = true;
      const churn = Array.from({ length: 3 }, (_, worker) =>
        comeAndGo(scene(), { worker, goOn: () => updating }),
      );
      const update = updateAndBack(target).finally(() => {
        updating = false;
      });
      const [marker, ...rounds] = await Promise.all([update, ...churn]);
      console.log(`pods that came and went during the update: ${rounds.join(" + ")}`);
      expect((await plexusPod(target)).metadata.uid).not.toBe(before.metadata.uid);
      await scene().waitForNothingLeft();
      expect(marker).toBe(isGiven ? undefined : "next");
    });

    test("plexusd is killed while pods come, and while they go", { timeout }, async (context) => {
      if (isGiven) {
        context.skip(ownOnly);
      }
      const { target } = scene();
      await createDeployment(scene(), 10);
      await waitUntil("pods come", async () => (await recordsOf(target)).length >= 2);
      await kill(target);
      await scene().kubectl("rollout", "status", "deployment/many", "--timeout=600s");
      const { items } = await scene().get<{ items: PodObject[] }>("pods", "--selector=app=many");
      await waitUntil(
        "every pod has its status",
        async () => {
          const pods = await scene().get<{ items: PodObject[] }>("pods", "--selector=app=many");
          return pods.items.every((pod) => networkStatus(pod).length === 3);
        },
        { intervalMs: 500 },
      );
      expect(items.length).toBe(10);
      await scene().kubectl("delete", "deployment", "many");
      await waitUntil("pods go", async () => (await recordsOf(target)).length < 10);
      await kill(target);
      await scene().kubectl("wait", "--for=delete", "pod", "--selector=app=many", "--timeout=600s");
      await scene().waitForNothingLeft();
      // A new pod: the kubelet waits longer each time before it starts this one's container again.
      await target.kubectl(system, ...restart);
      await waitForPlexus(target);
    });
  });
}

async function createDeployment(scene: Scene, replicas: number): Promise<void> {
  const { metadata, spec } = scene.podTemplate({ networks: "red,blue" });
  await scene.target.apply({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "many", namespace: home },
    spec: {
      replicas,
      selector: { matchLabels: { app: "many" } },
      template: { metadata: { ...metadata, labels: { app: "many" } }, spec },
    },
  });
}

/** Starts and deletes one pod after the other; each must come up and go. Returns how many did. */
async function comeAndGo(
  scene: Scene,
  { worker, goOn }: { worker: number; goOn: () => boolean },
): Promise<number> {
  let rounds = 0;
  while (goOn()) {
    const name = `churn-${worker}-${rounds}`;
    const pod = await scene.startPod(name, { networks: "red,blue" });
    expect(Object.keys(await scene.interfaces(name))).toEqual(["lo", "eth0", "net1", "net2"]);
    expect(pod.status.phase).toBe("Running");
    await scene.deletePods(name);
    rounds += 1;
  }
  return rounds;
}

/**
 * Our own cluster gets another image and the first one again; a given one, which may know no other, new pods of
 * the same, twice. Returns the last bytes of the other image's shim, as installed.
 */
async function updateAndBack(target: Target): Promise<string | undefined> {
  if (target.own === undefined) {
    await target.kubectl(system, ...restart);
    await waitForPlexus(target);
    await target.kubectl(system, ...restart);
    await waitForPlexus(target);
    return undefined;
  }
  await target.own.loadImage(await writeNextPlexusImage(target.own.directory));
  const images = [`plexusd=${nextPlexusImage}`, `install=${nextPlexusImage}`];
  await target.kubectl(system, "set", "image", "daemonset/plexus", ...images);
  await waitForPlexus(target);
  const marker = await target.inNode(["tail", "-c4", "/opt/cni/bin/plexus"]);
  await installPlexus(target);
  return marker;
}

async function kill(target: Target): Promise<void> {
  await target.inNode(["kill", "-KILL", await plexusdPid(target)]);
}
