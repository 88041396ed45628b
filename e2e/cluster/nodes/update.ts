import { expect, test } from "vitest";
import { comeAndGo } from "../scenarios/load.ts";
import type { PodObject } from "../scenarios/target/objects.ts";
import { plexusPod } from "../scenarios/target/plexus.ts";
import type { Scene } from "../scenarios/target/scene.ts";
import { eventually } from "../scenarios/target/target.ts";
import { type Lab, readyTime } from "./lab.ts";

/** The DaemonSet's rolling update, with the start-up taint that the scenarios after it need. */
export function updateScenarios(lab: () => Lab): void {
  test("a rolling update goes node by node and loses no ADD and no DEL", async () => {
    const scenes = [lab().one, lab().two];
    const plexusPods = (): Promise<PodObject[]> =>
      Promise.all(scenes.map(({ target }) => plexusPod(target)));
    const before = await plexusPods();
    let updating = true;
    const churn = scenes.map((scene, n) => comeAndGo(scene, n, () => updating));
    // The second one is read when plexusd starts: only the checksum of such keys changes in the DaemonSet.
    const changes = ["--set=startupTaint.enabled=true", "--set=config.apiTimeoutMs=9000"];
    const update = lab()
      .helm("upgrade", ...changes)
      .finally(() => {
        updating = false;
      });
    await Promise.all([update, ...churn]);
    const pods = await plexusPods();
    const old = before.map(({ metadata }) => metadata.uid);
    expect(pods.filter(({ metadata }) => old.includes(metadata.uid))).toEqual([]);
    const firstReady = Math.min(...pods.map((pod) => readyTime(pod) ?? Number.NaN));
    const lastCreated = Math.max(...pods.map(createdTime));
    expect(lastCreated).toBeGreaterThanOrEqual(firstReady);
  });

  test("an image that is missing stays on the node that is upgraded first", async () => {
    const { one, two } = lab();
    const before = await plexusPod(one.target);
    await upgradeFirst(two, "localhost/plexus:missing");
    await eventually("node two lacks the image", () => lacksImage(two));
    expect((await plexusPod(one.target)).metadata.uid).toBe(before.metadata.uid);
    await one.startAttached("served");
    await lab().helm("upgrade", "--reset-then-reuse-values");
    expect(readyTime(await plexusPod(two.target))).toBeDefined();
  });

  test("a rollout whose image is missing stops at its first node, and the other node attaches pods", async () => {
    const { one, two, cluster } = lab();
    const daemonSet = ["--namespace=kube-system", "daemonset/plexus"];
    await cluster.kubectl("set", "image", ...daemonSet, "plexusd=localhost/plexus:missing");
    const stuck = await eventually("plexusd has no image on one node", async () =>
      (await lacksImage(one)) ? one : (await lacksImage(two)) && two,
    );
    const ill = await lab().kubectlPlexus("doctor");
    expect(ill.exitCode, ill.stdout).toBe(1);
    expect(ill.stdout).toMatch(
      new RegExp(`^== ${stuck.target.nodeName}\nPROBLEM +plexusd .*ImagePull`, "m"),
    );
    const other = stuck === one ? two : one;
    await other.startAttached("served");
    expect(readyTime(await plexusPod(other.target))).toBeDefined();
    await cluster.kubectl("rollout", "undo", ...daemonSet);
    await cluster.kubectl("rollout", "status", ...daemonSet, "--timeout=240s");
  });
}

/** Follows the step of docs/operations/upgrade.md that upgrades one node first. */
async function upgradeFirst({ target }: Scene, image: string): Promise<void> {
  const updateStrategy = { type: "OnDelete", rollingUpdate: null };
  const patch = JSON.stringify({ spec: { updateStrategy } });
  const daemonSet = ["--namespace=kube-system", "daemonset/plexus"];
  await target.kubectl("patch", ...daemonSet, `--patch=${patch}`);
  await target.kubectl("set", "image", ...daemonSet, `plexusd=${image}`, `install=${image}`);
  const { name } = (await plexusPod(target)).metadata;
  await target.kubectl("delete", "--namespace=kube-system", `pod/${name}`);
}

async function lacksImage({ target }: Scene): Promise<boolean> {
  const { initContainerStatuses = [], containerStatuses = [] } = (await plexusPod(target)).status;
  return [...initContainerStatuses, ...containerStatuses].some(({ state }) =>
    /^(Err)?ImagePull/.test(state?.waiting?.reason ?? ""),
  );
}

function createdTime({ metadata }: PodObject): number {
  return Date.parse(metadata.creationTimestamp);
}
