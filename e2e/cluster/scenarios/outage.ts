// SPDX-License-Identifier: Apache-2.0

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { recordsOf } from "./node-state.ts";
import { networkStatus } from "./objects.ts";
import {
  nodeReady,
  parkPlexus,
  pidsWithArgument,
  plexusdPid,
  unparkPlexus,
  waitForPlexus,
  waitForReady,
} from "./plexus.ts";
import type { Scene } from "./scene.ts";
import { isGiven, ownCluster, ownOnly } from "./target.ts";

const timeout = 900_000;
const both = { networks: "red,blue" };

/** The API server, plexusd or the whole node goes away under pods. */
export function outageScenarios(scene: () => Scene): void {
  describe("an outage", () => {
    beforeEach((context) => {
      if (isGiven) {
        context.skip(ownOnly);
      }
    });

    test("of the API server: pods that end meanwhile are detached", { timeout }, async () => {
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

    test("of the API server and plexusd: DEL needs neither", { timeout }, async () => {
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

    test("of the API server: pods are given new sandboxes, by what the runtime says of them", {
      timeout,
    }, async () => {
      const { target } = scene();
      const markers = { networks: "86404", plain: "86405" };
      await scene().startPod("networks", { ...both, container: sleeping(markers.networks) });
      await scene().startPod("plain", { container: sleeping(markers.plain) });
      await ownCluster(scene()).controlPlane.stopApiServer("SIGKILL");
      onTestFinished(async () => restartApiServer(scene()));
      await replaceSandbox(scene(), markers.networks);
      const leases = (await scene().added("address leases")).filter((path) =>
        path.includes("/red/"),
      );
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

    test("of plexusd: pods wait for it, and the node stays ready", { timeout }, async () => {
      const { target } = scene();
      await scene().startPod("before", both);
      await parkPlexus(target);
      onTestFinished(async () => unparkPlexus(target));
      await scene().createPod("waits", both);
      const event = await scene().waitForEvent("waits", "FailedCreatePodSandBox");
      expect(event.message).toMatch(/plexus/);
      // The primary's configuration has cniVersion 1.0.0, which has no STATUS for the runtime to call.
      expect(await nodeReady(target)).toBe("True");
      await scene().deletePods("before");
      await waitUntil(
        "a pod is detached without plexusd",
        async () => (await recordsOf(target)).length === 0,
        { timeoutMs: 120_000 },
      );
      await unparkPlexus(target);
      await waitForPlexus(target);
      expect(networkStatus(await scene().waitForPod("waits"))).toHaveLength(3);
    });

    test("of plexusd with CNI 1.1: the node is not ready until it is back", {
      timeout,
    }, async () => {
      const { target } = scene();
      await usePrimaryVersion(scene(), "1.1.0");
      onTestFinished(async () => usePrimaryVersion(scene(), "1.0.0"));
      await scene().startPod("with-1.1", both);
      await parkPlexus(target);
      onTestFinished(async () => unparkPlexus(target));
      await waitForReady(target, "False");
      await unparkPlexus(target);
      await waitForPlexus(target);
      await waitForReady(target, "True");
      await scene().startPod("with-1.1-again", both);
    });

    test("of the node: pods come back with their networks, and nothing else", {
      timeout,
    }, async () => {
      const { target } = scene();
      const names = ["first", "second", "third"];
      for (const name of names) {
        await scene().startPod(name, both);
      }
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
      await waitUntil(
        "the attachments of before the reboot are cleaned up",
        async () => (await recordsOf(target)).length === names.length,
        { timeoutMs: 240_000, intervalMs: 1_000 },
      );
      expect((await recordsOf(target)).filter((name) => before.includes(name))).toEqual([]);
      const leases = await scene().added("address leases");
      expect(leases.filter((path) => path.includes("/red/"))).toHaveLength(names.length);
    });
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

/** Kills the sandbox of the one pod that sleeps so long, and waits until it sleeps in another one. */
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

/** As an agent of the primary CNI would on its upgrade. plexusd has to follow. */
async function usePrimaryVersion(scene: Scene, cniVersion: string): Promise<void> {
  const { node } = ownCluster(scene);
  const primary = join(node.cniConfDir, "10-primary.conflist");
  const conf = JSON.parse(await readFile(primary, "utf8"));
  await writeFile(primary, JSON.stringify({ ...conf, cniVersion }, undefined, 2));
  const own = join(node.cniConfDir, "00-plexus.conflist");
  await waitUntil(
    `00-plexus.conflist has cniVersion ${cniVersion}`,
    async () => JSON.parse(await readFile(own, "utf8")).cniVersion === cniVersion,
  );
}

/** Waits until a pod's container runs again after a reboot. */
async function waitForRestart(scene: Scene, name: string): Promise<void> {
  const restarted = async (): Promise<boolean> => {
    const { status } = await scene.pod(name);
    const ready = status.conditions?.some(
      (each) => each.type === "Ready" && each.status === "True",
    );
    return ready === true && (status.containerStatuses?.[0]?.restartCount ?? 0) > 0;
  };
  await waitUntil(`pod ${name} runs again`, restarted, { timeoutMs: 240_000, intervalMs: 500 });
}
