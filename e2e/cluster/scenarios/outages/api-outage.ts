import { expect, onTestFinished, test } from "vitest";
import { recordsOf, waitForRecords } from "../target/node-state.ts";
import { both, networkStatus } from "../target/objects.ts";
import { pidsWithArgument, plexusdPid, waitForPlexus } from "../target/plexus.ts";
import type { PodOptions, Scene } from "../target/scene.ts";
import { eventually, isCrio, ownCluster, skipGiven } from "../target/target.ts";

/** How many seconds the pods sleep; identifies their processes. */
const sleeps = { ends: "86402", endsLater: "86403", networks: "86404", plain: "86405" };

/** The API server becomes unavailable while pods run, and then plexusd too. */
export function apiOutageScenario(scene: () => Scene): void {
  test("while the API server and then plexusd are unavailable, ended pods are detached and pods get new sandboxes", async (context) => {
    skipGiven(context);
    const { target } = scene();
    await startPods(scene());
    expect(await recordsOf(target)).toHaveLength(5);
    await scene().kubectl("delete", "pod", "deleted", "--wait=false");
    // The kubelet now knows of the deletion and waits for the grace period.
    await scene().waitForEvent("deleted", "Killing");
    await ownCluster(scene()).controlPlane.killApiServer();
    onTestFinished(async () => restartApiServer(scene()));

    await killByArgument(scene(), sleeps.ends);
    await waitForRecords(target, 3);
    expect(await scene().added("netns")).toHaveLength(3);
    await replaceSandbox(scene(), sleeps.networks);
    const leases = (await scene().added("address leases")).filter((path) => path.includes("/red/"));
    expect(leases).toHaveLength(2);

    const pid = await plexusdPid(target);
    await target.inNode(["kill", "-KILL", pid]);
    await killByArgument(scene(), sleeps.endsLater);
    await waitForRecords(target, 2);
    await eventually("plexusd runs again, without a list of pods", async () => {
      const [another] = await pidsWithArgument(target, "/plexus/plexusd.js");
      return another !== undefined && another !== pid;
    });
    await replaceSandbox(scene(), sleeps.plain);

    await restartApiServer(scene());
    await waitForPlexus(target);
    await expectStatusOfNewSandbox(scene(), "networks", 3);
    await expectStatusOfNewSandbox(scene(), "plain", 1);
    await scene().startPod("after-outage", both);
  });
}

async function startPods(scene: Scene): Promise<void> {
  const once = { ...both, spec: { restartPolicy: "Never" } };
  // With CRI-O, only the sandbox of such a pod has a process.
  const sharing = isCrio ? { spec: { shareProcessNamespace: true } } : {};
  const preStop = { lifecycle: { preStop: { sleep: { seconds: 15 } } } };
  const pods: Readonly<Record<string, PodOptions>> = {
    ends: { ...once, container: sleeping(sleeps.ends) },
    "ends-later": { ...once, container: sleeping(sleeps.endsLater) },
    networks: { ...both, ...sharing, container: sleeping(sleeps.networks) },
    plain: { ...sharing, container: sleeping(sleeps.plain) },
    deleted: { ...both, spec: { terminationGracePeriodSeconds: 15 }, container: preStop },
  };
  for (const [name, options] of Object.entries(pods)) await scene.startPod(name, options);
}

function sleeping(seconds: string): object {
  return { command: ["sleep", seconds] };
}

/** Kills the one process on the node with this argument. */
async function killByArgument({ target }: Scene, argument: string): Promise<void> {
  const [pid, ...more] = await pidsWithArgument(target, argument);
  if (pid === undefined || more.length > 0) {
    throw new Error(`not one process sleeps ${argument} s`);
  }
  await target.inNode(["kill", "-KILL", pid]);
}

/** Starts the API server unless it runs. */
async function restartApiServer(scene: Scene): Promise<void> {
  const ready = ["get", "--raw=/readyz", "--request-timeout=5s"];
  if ((await scene.target.tryKubectl(...ready)).exitCode === 0) return;
  await ownCluster(scene).controlPlane.startApiServer();
}

/** Kills the sandbox of the pod with this sleep time, and waits until it sleeps in a new one. */
async function replaceSandbox({ target }: Scene, seconds: string): Promise<void> {
  const namespaceOf = async (pid: string): Promise<string> =>
    target.inNode(["readlink", `/proc/${pid}/ns/net`]);
  const [sleeper = ""] = await pidsWithArgument(target, seconds);
  const old = await namespaceOf(sleeper);
  for (const pid of await pidsWithArgument(target, "/pause")) {
    if ((await namespaceOf(pid)) === old) await target.inNode(["kill", "-KILL", pid]);
  }
  await eventually(`the pod that sleeps ${seconds} s has another sandbox`, async () => {
    const [pid] = await pidsWithArgument(target, seconds);
    return pid !== undefined && (await namespaceOf(pid).catch(() => old)) !== old;
  });
}

/** Expects `count` networks, and waits until network-status describes the new sandbox. */
async function expectStatusOfNewSandbox(scene: Scene, name: string, count: number): Promise<void> {
  await scene.waitForPod(name);
  expect(await scene.networkStatus(name)).toHaveLength(count);
  expect(Object.keys(await scene.interfaces(name))).toHaveLength(count + 1);
  await eventually(`the network-status of ${name} is that of its new sandbox`, async () => {
    const [eth0] = networkStatus(await scene.pod(name));
    return (await scene.interfaces(name)).eth0 === `${eth0?.ips?.[0]}/24`;
  });
}
