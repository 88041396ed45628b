import { describe, expect, test } from "vitest";
import { otherImages, writeOtherImage } from "./target/images.ts";
import { recordsOf } from "./target/node-state.ts";
import { both, home, networkStatus, type PodObject } from "./target/objects.ts";
import {
  installPlexus,
  plexusdPid,
  plexusPod,
  restartPlexus,
  waitForPlexus,
} from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, isGiven, ownCluster, type Target } from "./target/target.ts";

/** No ADD and no DEL may be lost when plexusd is replaced or killed while many pods start and stop. */
export function loadScenarios(scene: () => Scene): void {
  describe("under load", () => {
    test("30 pods with two networks each start and stop although plexusd is killed meanwhile", async () => {
      const { target } = scene();
      await createDeployment(scene(), 30);
      await eventually("pods start", async () => (await recordsOf(target)).length >= 2);
      await kill(target);
      await scene().kubectl("rollout", "status", "deployment/many", "--timeout=600s");
      const addresses = await eventually("every pod has its status", async () => {
        const { items } = await scene().get<{ items: PodObject[] }>("pods", "--selector=app=many");
        const found = items.map((pod) => networkStatus(pod).map((entry) => entry.ips?.[0]));
        return found.every((each) => each.length === 3) && found;
      });
      expect(addresses).toHaveLength(30);
      expect(new Set(addresses.flat()).size).toBe(90);
      expect((await scene().added("attachment records")).filter(isRecord)).toHaveLength(30);
      await scene().kubectl("delete", "deployment", "many");
      await eventually("pods stop", async () => (await recordsOf(target)).length < 30);
      await kill(target);
      await scene().kubectl("wait", "--for=delete", "pod", "--selector=app=many", "--timeout=600s");
      await scene().waitForNothingLeft();
      // Replace the pod: the kubelet backs off before it restarts this one's container again.
      await restartPlexus(target);
    });

    test("a rolling update loses no ADD and no DEL, and never hands the node back", async () => {
      const { target } = scene();
      const before = await plexusPod(target);
      const conf = await target.inNode(["stat", plexusConf]);
      let updating = true;
      const churn = [0, 1, 2].map((worker) => comeAndGo(scene(), worker, () => updating));
      const update = updateAndBack(target).finally(() => {
        updating = false;
      });
      const [marker, ...rounds] = await Promise.all([update, ...churn]);
      console.log(`pods that came and went during the update: ${rounds.join(" + ")}`);
      expect((await plexusPod(target)).metadata.uid).not.toBe(before.metadata.uid);
      expect(await target.inNode(["stat", plexusConf])).toBe(conf);
      await scene().waitForNothingLeft();
      expect(marker).toBe(isGiven ? undefined : "next");
    });
  });
}

/** Its inode and times change when it is written again. */
const plexusConf = "/etc/cni/net.d/00-plexus.conflist";

const isRecord = (name: string): boolean => name.endsWith(".record");

async function createDeployment(scene: Scene, replicas: number): Promise<void> {
  const { metadata, spec } = scene.podTemplate(both);
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
export async function comeAndGo(
  scene: Scene,
  worker: number,
  goOn: () => boolean,
): Promise<number> {
  let rounds = 0;
  while (goOn()) {
    const name = `churn-${worker}-${rounds}`;
    const pod = await scene.startPod(name, both);
    expect(Object.keys(await scene.interfaces(name))).toEqual(["lo", "eth0", "net1", "net2"]);
    expect(pod.status.phase).toBe("Running");
    await scene.deletePods(name);
    rounds += 1;
  }
  return rounds;
}

/**
 * Updates our own cluster to another image and back. A given cluster may have no other image, so its pods are
 * restarted twice. Returns the last bytes of the other image's shim, as installed.
 */
async function updateAndBack(target: Target): Promise<string | undefined> {
  if (isGiven) {
    await restartPlexus(target);
    await restartPlexus(target);
    return undefined;
  }
  const { node, directory } = ownCluster({ target });
  await node.loadImage(await writeOtherImage("next", directory));
  const images = [`plexusd=${otherImages.next}`, `install=${otherImages.next}`];
  const set = ["--namespace=kube-system", "set", "image", "daemonset/plexus"];
  await target.kubectl(...set, ...images);
  await waitForPlexus(target);
  const marker = await target.inNode(["tail", "-c4", "/opt/cni/bin/plexus"]);
  await installPlexus(target);
  return marker;
}

/** Kills plexusd, unless the cluster is given. */
async function kill(target: Target): Promise<void> {
  if (isGiven) return;
  await target.inNode(["kill", "-KILL", await plexusdPid(target)]);
}
