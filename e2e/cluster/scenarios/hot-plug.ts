import { createHash } from "node:crypto";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { bridge } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { home, networkStatus, networksKey, type StatusEntry } from "./target/objects.ts";
import {
  kubectlPlexus,
  kustomize,
  pidsWithArgument,
  plexusdPid,
  readConfig,
  restartPlexus,
  waitForPlexus,
  writeConfig,
} from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, ownCluster, skipGiven, type Target } from "./target/target.ts";

const agent = "deploy/overlays/agent";

/** How KubeVirt names the interface of a VM's network ([H-17]). */
function kubevirtName(network: string): string {
  return `pod${createHash("sha256").update(network).digest("hex").slice(0, 11)}`;
}

const [first, second] = [kubevirtName("first"), kubevirtName("second")];
const red = { name: "red", interface: first };
const blue = { name: "blue", interface: second };

/** Networks of running pods change with their annotation, in the order in which KubeVirt edits it. */
export function hotPlugScenarios(scene: () => Scene): void {
  describe("a running pod", () => {
    beforeEach(async (context) => {
      skipGiven(context);
      await enableHotPlug(scene().target);
    });

    test("gets and loses networks as KubeVirt edits its annotation [H-15] [H-17] [H-19] [H-42]", async () => {
      await scene().startPod("vm", { networks: [red] });
      const before = await scene().networkStatus("vm");

      await edit(scene(), "vm", [red, blue]);
      const [eth0, ...plugged] = await waitForInterfaces(scene(), "vm", ["eth0", first, second]);
      expect(eth0).toEqual(before[0]);
      expect(plugged[0]).toEqual(before[1]);
      expect(plugged[1]).toMatchObject({ name: "plexus-e2e/blue", mac: expect.any(String) });
      const inPod = await scene().interfaces("vm");
      expect(inPod[second]).toBe(`${plugged[1]?.ips?.[0]}/24`);
      expect((await scene().waitForEvent("vm", "AddedInterface")).type).toBe("Normal");

      await edit(scene(), "vm", [red]);
      await waitForInterfaces(scene(), "vm", ["eth0", first]);
      expect(Object.keys(await scene().interfaces("vm"))).toEqual(["lo", "eth0", first]);
      expect((await scene().waitForEvent("vm", "RemovedInterface")).message).toContain(second);

      await edit(scene(), "vm", [red, blue]);
      await waitForInterfaces(scene(), "vm", ["eth0", first, second]);
    });

    test("gets another network under the same interface name, and several changes in one edit [H-9.2] [H-9.3] [H-20]", async () => {
      await scene().startPod("vm", { networks: [red, blue] });
      const swapped = { ...blue, name: "red" };
      await edit(scene(), "vm", [{ ...red, name: "blue" }, swapped]);
      await eventually("both networks are swapped", async () => {
        const names = (await scene().networkStatus("vm")).map((each) => [
          each.interface,
          each.name,
        ]);
        expect(Object.fromEntries(names.slice(1))).toEqual({
          [first]: "plexus-e2e/blue",
          [second]: "plexus-e2e/red",
        });
        return true;
      });
      expect(await scene().interfaces("vm")).toMatchObject({
        [first]: expect.stringMatching(/^10\.162\./),
        [second]: expect.stringMatching(/^10\.161\./),
      });
    });

    test("keeps its networks if the annotation becomes invalid [H-30]", async () => {
      await scene().startPod("vm", { networks: [red] });
      await edit(scene(), "vm", "red@@net1");
      expect(await scene().waitForEvent("vm", "InterfaceAddRejected")).toMatchObject({
        type: "Warning",
        message: expect.stringContaining("red@@net1"),
      });
      expect(Object.keys(await scene().interfaces("vm"))).toEqual(["lo", "eth0", first]);
    });

    test("gets its networks although plexusd, the agent or the API server is killed [H-42]", async () => {
      const { target } = scene();
      await scene().startPod("vm", { networks: [red] });
      await edit(scene(), "vm", [red, blue]);
      await target.inNode(["kill", "-KILL", await plexusdPid(target)]);
      await waitForInterfaces(scene(), "vm", ["eth0", first, second]);
      await edit(scene(), "vm", [blue]);
      for (const pid of await pidsWithArgument(target, "agent")) {
        await target.inNode(["sh", "-c", `kill -KILL ${pid} || true`]);
      }
      await waitForInterfaces(scene(), "vm", ["eth0", second]);
      const { controlPlane } = ownCluster(scene());
      onTestFinished(() => controlPlane.startApiServer());
      await edit(scene(), "vm", [blue, red]);
      await controlPlane.killApiServer();
      await controlPlane.startApiServer();
      await waitForPlexus(target);
      await waitForInterfaces(scene(), "vm", ["eth0", second, first]);
    });

    test("gets a changed definition by kubectl plexus refresh [H-28]", async () => {
      const { target } = scene();
      const name = "late";
      const define = (mtu: number): Promise<string> =>
        target.apply(nad(name, bridge(name, 165, { mtu }), { namespace: home }));
      await define(1400);
      onTestFinished(async () => {
        await scene().kubectl("delete", "network-attachment-definition", name);
      });
      await scene().startPod("vm", { networks: [{ name, interface: first }] });
      await define(1380);
      const isOutdated = async (): Promise<boolean> =>
        (await kubectlPlexus(target, ["explain", `${home}/vm`])).stdout.includes("refresh");
      await eventually("explain names the command", isOutdated);
      expect(await scene().exec("vm", "ip", "link", "show", first)).toContain("mtu 1400");
      const { exitCode, stderr } = await kubectlPlexus(target, ["refresh", `${home}/vm`, first]);
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      expect(await scene().exec("vm", "ip", "link", "show", first)).toContain("mtu 1380");
    });

    test("does not wait for the others: twenty pods at once", async () => {
      const names = Array.from({ length: 20 }, (_, index) => `vm-${index}`);
      await Promise.all(names.map((name) => scene().startPod(name, { networks: [red] })));
      const milliseconds = await Promise.all(
        names.map(async (name) => {
          const started = performance.now();
          await edit(scene(), name, [red, blue]);
          await waitForInterfaces(scene(), name, ["eth0", first, second]);
          return performance.now() - started;
        }),
      );
      const sorted = milliseconds.toSorted((a, b) => a - b).map(Math.round);
      console.log(`twenty edits, with kubectl: p50 ${sorted[9]} ms, last ${sorted.at(-1)} ms`);
    });
  });
}

/** Installs the agent and switches hot-plug on, for this test. */
export async function enableHotPlug(target: Target): Promise<void> {
  const config = await readConfig(target);
  await writeConfig(target, `${config}\nhotPlug: true\n`);
  await restartPlexus(target);
  const manifests = await kustomize(target, agent);
  await target.apply(manifests);
  onTestFinished(async () => {
    await target.kubectl("delete", "--ignore-not-found", "--kustomize", agent);
    await writeConfig(target, config);
    await restartPlexus(target);
  });
  const rollout = ["rollout", "status", "daemonset/plexus-agent", "--timeout=240s"];
  await target.kubectl("--namespace=kube-system", ...rollout);
}

/** Replaces the networks of a pod, as KubeVirt's controller does. */
export async function edit(
  scene: Scene,
  name: string,
  networks: string | readonly object[],
): Promise<void> {
  const value = typeof networks === "string" ? networks : JSON.stringify(networks);
  const patch = JSON.stringify({ metadata: { annotations: { [networksKey]: value } } });
  await scene.kubectl("patch", "pod", name, "--type=merge", `--patch=${patch}`);
}

/** Waits until network-status shows these interfaces, in this order, and no other. */
export function waitForInterfaces(
  scene: Scene,
  name: string,
  interfaces: readonly string[],
): Promise<readonly StatusEntry[]> {
  return eventually(`pod ${name} has ${interfaces.join()}`, async () => {
    const status = networkStatus(await scene.pod(name));
    return status.map((each) => each.interface).join() === interfaces.join() && status;
  });
}
