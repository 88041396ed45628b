// SPDX-License-Identifier: Apache-2.0

import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { recordsOf } from "./target/node-state.ts";
import { networkStatus } from "./target/objects.ts";
import { pidsWithArgument, plexusdPid, waitForPlexus } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { isGiven, ownCluster, ownOnly } from "./target/target.ts";

/*
 * The API server goes away under pods. After an outage its clients (the kubelet, the scheduler, the controllers) wait
 * for up to a minute before they ask it again when there was another one in the last two minutes: scenarios.test.ts
 * has other scenarios between these.
 */

const timeout = 900_000;
const both = { networks: "red,blue" };

/** Pods end while there is no API server. */
export function apiOutageScenario(scene: () => Scene): void {
  test("an outage of the API server: pods that end meanwhile are detached", {
    timeout,
  }, async (context) => {
    if (isGiven) context.skip(ownOnly);
    const { controlPlane } = ownCluster(scene());
    const marker = "86402";
    const ends = { command: ["sleep", marker] };
    await scene().startPod("stays", both);
    await scene().startPod("deleted", {
      ...both,
      spec: { terminationGracePeriodSeconds: 15 },
      container: { lifecycle: { preStop: { sleep: { seconds: 15 } } } },
    });
    await scene().startPod("ends", {
      ...both,
      spec: { restartPolicy: "Never" },
      container: ends,
    });
    expect(await recordsOf(scene().target)).toHaveLength(3);
    await scene().kubectl("delete", "pod", "deleted", "--wait=false");
    // From now on the kubelet knows of the deletion, and waits for the grace period.
    await scene().waitForEvent("deleted", "Killing");
    await controlPlane.stopApiServer("SIGKILL");
    onTestFinished(async () => restartApiServer(scene()));
    await killByArgument(scene(), marker);
    await waitUntil(
      "two of the pods are detached without an API server",
      async () => (await recordsOf(scene().target)).length === 1,
      { timeoutMs: 120_000, intervalMs: 500 },
    );
    expect(await scene().added("netns")).toHaveLength(1);
    expect(
      (await scene().added("address leases")).filter((path) => path.includes("/red/")),
    ).toHaveLength(1);
    await restartApiServer(scene());
    await scene().startPod("after-outage", both);
  });
}

/** Pods end while there is neither an API server nor plexusd. */
export function apiAndPlexusdOutageScenario(scene: () => Scene): void {
  test("an outage of the API server and plexusd: DEL needs neither", {
    timeout,
  }, async (context) => {
    if (isGiven) context.skip(ownOnly);
    const { controlPlane } = ownCluster(scene());
    const marker = "86403";
    const ends = { command: ["sleep", marker] };
    await scene().startPod("ends", {
      ...both,
      spec: { restartPolicy: "Never" },
      container: ends,
    });
    await controlPlane.stopApiServer("SIGKILL");
    onTestFinished(async () => restartApiServer(scene()));
    const pid = await plexusdPid(scene().target);
    await scene().target.inNode(["kill", "-KILL", pid]);
    await killByArgument(scene(), marker);
    await waitUntil(
      "the pod is detached without an API server",
      async () => (await recordsOf(scene().target)).length === 0,
      { timeoutMs: 120_000, intervalMs: 500 },
    );
    await waitUntil(
      "plexusd runs again, without an API server",
      async () => (await plexusdPid(scene().target)) !== pid,
      { timeoutMs: 120_000, intervalMs: 500 },
    );
    await restartApiServer(scene());
    await waitForPlexus(scene().target);
    await scene().startPod("after-both", both);
  });
}

/** Pods need new sandboxes while there is no API server. */
export function sandboxOutageScenario(scene: () => Scene): void {
  test("an outage of the API server: pods are given new sandboxes, by what the runtime says of them", {
    timeout,
  }, async (context) => {
    if (isGiven) context.skip(ownOnly);
    const { target } = scene();
    const markers = { networks: "86404", plain: "86405" };
    await scene().startPod("networks", { ...both, container: sleeping(markers.networks) });
    await scene().startPod("plain", { container: sleeping(markers.plain) });
    await ownCluster(scene()).controlPlane.stopApiServer("SIGKILL");
    onTestFinished(async () => restartApiServer(scene()));
    await replaceSandbox(scene(), markers.networks);
    const leases = (await scene().added("address leases")).filter((path) => path.includes("/red/"));
    expect(leases).toHaveLength(1);
    const pid = await plexusdPid(target);
    await target.inNode(["kill", "-KILL", pid]);
    await waitUntil(
      "plexusd runs again, and knows no pod",
      async () => {
        const [another] = await pidsWithArgument(target, "/plexus/plexusd.js");
        return another !== undefined && another !== pid;
      },
      { timeoutMs: 120_000, intervalMs: 500 },
    );
    await replaceSandbox(scene(), markers.plain);
    await restartApiServer(scene());
    await waitForPlexus(target);
    for (const [name, count] of [
      ["networks", 3],
      ["plain", 1],
    ] as const) {
      const status = networkStatus(await scene().waitForPod(name));
      expect(Object.keys(await scene().interfaces(name))).toHaveLength(count + 1);
      expect(status).toHaveLength(count);
      await waitUntil(
        `the network-status of ${name} is that of its new sandbox`,
        async () => {
          const [eth0] = networkStatus(await scene().pod(name));
          return (await scene().interfaces(name)).eth0 === `${eth0?.ips?.[0]}/24`;
        },
        { timeoutMs: 120_000, intervalMs: 1_000 },
      );
    }
  });
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
  const { exitCode } = await scene.target.tryKubectl(
    "get",
    "--raw=/readyz",
    "--request-timeout=5s",
  );
  if (exitCode !== 0) {
    await ownCluster(scene).controlPlane.startApiServer();
  }
}

/** A container that never ends, and can be told by its argument. */
function sleeping(marker: string): object {
  return { command: ["sleep", marker] };
}

/** Kills the sandbox of the pod with this sleep time, and waits until it sleeps in a new one. */
async function replaceSandbox({ target }: Scene, marker: string): Promise<void> {
  const namespaceOf = async (pid: string): Promise<string> =>
    target.inNode(["readlink", `/proc/${pid}/ns/net`]);
  const [sleeper = ""] = await pidsWithArgument(target, marker);
  const old = await namespaceOf(sleeper);
  for (const pid of await pidsWithArgument(target, "/pause")) {
    if ((await namespaceOf(pid)) === old) await target.inNode(["kill", "-KILL", pid]);
  }
  await waitUntil(
    `the pod that sleeps ${marker} s has another sandbox`,
    async () => {
      const [pid] = await pidsWithArgument(target, marker);
      return pid !== undefined && (await namespaceOf(pid).catch(() => old)) !== old;
    },
    { timeoutMs: 180_000, intervalMs: 500 },
  );
}
