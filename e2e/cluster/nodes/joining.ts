import { expect, test } from "vitest";
import { both } from "../scenarios/target/objects.ts";
import { nodeField } from "../scenarios/target/target.ts";
import type { Lab } from "./lab.ts";
import { sceneOn } from "./node-target.ts";

const taint = { key: "plexus.dev/not-ready", effect: "NoSchedule" } as const;

/** Nodes come and go while the others serve pods. */
export function joinScenarios(lab: () => Lab): void {
  test("a node that joins with the start-up taint attaches its first pod, and others do not notice its end", async () => {
    const { cluster, one, two } = lab();
    await one.startPod("stays", both);
    const node = await cluster.addNode({ taints: [taint] });
    const three = sceneOn(cluster, node);
    await three.createPod("first", both);
    await lab().label(three);
    await three.waitForPod("first");
    expect(await three.networkStatus("first")).toHaveLength(3);
    expect(await nodeField(three.target, ".spec.taints[*].key")).not.toContain(taint.key);

    await node.stopKubelet();
    const { exitCode, stdout, stderr } = await lab().kubectlPlexus("doctor");
    expect(exitCode).not.toBe(0);
    expect(stdout + stderr).toContain(node.name);
    await cluster.removeNode(node);
    await one.kubectl("delete", "pod", "first", "--force", "--grace-period=0");

    await two.startAttached("later");
    const peer = (await one.networkStatus("stays"))[0]?.ips?.[0] ?? "";
    expect(await two.exec("later", "ping", "-c1", "-W5", peer)).toContain("1 packets received");
    for (const { target } of [one, two]) {
      const { exitCode: own } = await lab().kubectlPlexus("doctor", target.nodeName);
      expect(own, target.nodeName).toBe(0);
    }
  });
}
