import { expect, test } from "vitest";
import { loadMultusImages } from "../scenarios/pages/multus.ts";
import { both } from "../scenarios/target/objects.ts";
import { eventually, nodeField } from "../scenarios/target/target.ts";
import { isFromMultus, type Lab } from "./lab.ts";
import { sceneOn } from "./node-target.ts";

const taint = { key: "plexus.dev/not-ready", effect: "NoSchedule" } as const;

/** Nodes come and go while the others serve pods. */
export function joinScenarios(lab: () => Lab): void {
  test.skipIf(!isFromMultus)("a node that joins during a migration gets Multus", async () => {
    const { cluster } = lab();
    const node = await cluster.addNode();
    const three = sceneOn(cluster, node);
    await loadMultusImages(cluster, [node]);
    await eventually("Multus serves the node", async () =>
      (await node.host.run(["ls", "/etc/cni/net.d"])).includes("00-multus.conf"),
    );
    await three.startPod("by-multus", both);
    expect(Object.keys(await three.interfaces("by-multus"))).toEqual([
      "lo",
      "eth0",
      "net1",
      "net2",
    ]);
    await three.deletePods("by-multus");
    await cluster.removeNode(node);
  });

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
