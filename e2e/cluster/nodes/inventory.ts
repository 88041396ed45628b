import { expect, test } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { run } from "../machine/run.ts";
import { home } from "../scenarios/target/objects.ts";
import type { Scene } from "../scenarios/target/scene.ts";
import { eventually } from "../scenarios/target/target.ts";
import type { Lab } from "./lab.ts";

const edge = `${home}/edge`;
const lacks = 'the node has no link "mv0", also not as an alternative name';

/** Both nodes have Plexus. Only the second one has the link `mv0`, and later an alternative name instead. */
export function inventoryScenarios(lab: () => Lab): void {
  test("kubectl plexus networks, pods and explain: a network whose link only one node has", async () => {
    const { cluster, one, two } = lab();
    const pid = cluster.nodes[1]?.host.pid ?? 0;
    const link = (...words: string[]): Promise<unknown> =>
      run(["nsenter", `--target=${pid}`, "-n", "ip", "link", ...words]);
    const shown = async (...words: string[]): Promise<string> =>
      (await lab().kubectlPlexus(...words)).stdout;
    await one.target.apply(
      nad("edge", list("edge", { type: "macvlan", master: "mv0" }), { namespace: home }),
    );
    expect(await lab().kubectlPlexus("networks", edge)).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining(` 0 of 2  node-1,node-2: ${lacks}`),
    });
    expect(await shown("doctor")).toContain(`network ${edge}  can be used on no node: ${lacks}`);
    await link("add", "mv0", "type", "veth", "peer", "name", "mv1");
    try {
      const { exitCode, stdout } = await lab().kubectlPlexus("networks", edge);
      expect({ exitCode, stdout }).toEqual({
        exitCode: 0,
        stdout: expect.stringContaining(` 1 of 2: node-2  node-1: ${lacks}`),
      });
      await one.createPod("far", { networks: "edge" });
      await one.waitForEvent("far", "AttachFailed");
      const explained = await shown("explain", `${home}/far`);
      expect(explained).toMatch(new RegExp(`^Cannot attach ${edge}: ${lacks}`));
      expect(explained).toMatch(/^nodes that have what these networks need: node-2$/m);
      await two.startPod("near", { networks: "edge" });
      expect(await shown("pods", edge)).toMatch(
        new RegExp(`^${home}/near +net1 +- +[0-9a-f:]{17} +node-2 +\\d{4}-`, "m"),
      );
      expect(await shown("networks", edge)).toMatch(new RegExp(`^${edge} +1 `, "m"));

      await link("set", "mv0", "down", "name", "mv9");
      await link("property", "add", "dev", "mv9", "altname", "mv0");
      expect(await shown("networks", "-o", "wide", edge)).toContain(
        "node-2: link mv0 is an alternative name of mv9",
      );
      await two.startPod("renamed", { networks: "edge" });
    } finally {
      await one.clear();
      await link("delete", "mv1");
    }
  });

  test("network placement: pods run only on the node with the link, and wait where there is none", async () => {
    const { cluster, one } = lab();
    const pid = cluster.nodes[1]?.host.pid ?? 0;
    const link = (...words: string[]): Promise<unknown> =>
      run(["nsenter", `--target=${pid}`, "-n", "ip", "link", ...words]);
    const key = `networks.plexus.dev/${home}.placed`;
    const annotations = {
      "plexus.dev/schedule": "true",
      "k8s.v1.cni.cncf.io/resourceName": key,
    };
    const config = list("placed", { type: "macvlan", master: "mv0", mode: "bridge" });
    const having = { requiredDuringSchedulingIgnoredDuringExecution: labelled(key) };
    const byLabel = {
      networks: "placed",
      spec: { nodeSelector: {}, affinity: { nodeAffinity: having } },
    };
    // What the resources injector or KubeVirt adds.
    const byResource = {
      networks: "placed",
      spec: { nodeSelector: {} },
      container: { resources: { limits: { [key]: "1" } } },
    };
    await lab().helm("upgrade", "--set=networkPlacement.enabled=true");
    await link("add", "mv0", "type", "veth", "peer", "name", "mv1");
    try {
      await one.target.apply(nad("placed", config, { namespace: home, annotations }));
      const names = Array.from({ length: 15 }, (_, i) => `${i}`);
      for (const name of names) {
        await one.createPod(`by-label-${name}`, byLabel);
        await one.createPod(`by-resource-${name}`, byResource);
      }
      for (const name of names.flatMap((each) => [`by-label-${each}`, `by-resource-${each}`]))
        expect(await nodeOf(one, name), name).toBe("node-2");
      await one.clear();

      await link("set", "mv0", "down", "name", "mv9");
      await eventually("no node has the network", async () => (await labelsOf(one, key)) === "");
      await one.createPod("late", byLabel);
      await one.createPod("later", byResource);
      await one.waitForEvent("late", "FailedScheduling", "node affinity");
      await one.waitForEvent("later", "FailedScheduling", `Insufficient ${key}`);
      await link("property", "add", "dev", "mv9", "altname", "mv0");
      for (const name of ["late", "later"]) expect(await nodeOf(one, name)).toBe("node-2");
    } finally {
      await one.clear();
      await one.kubectl("delete", "net-attach-def", "placed");
      await eventually("no node has the label", async () => (await labelsOf(one, key)) === "");
      await link("delete", "mv1");
      await lab().helm("upgrade", "--set=networkPlacement.enabled=false");
    }
  });
}

function labelled(key: string): object {
  return { nodeSelectorTerms: [{ matchExpressions: [{ key, operator: "Exists" }] }] };
}

/** Where a pod runs, as soon as it does. */
async function nodeOf(scene: Scene, pod: string): Promise<string> {
  await scene.waitForPod(pod);
  return scene.kubectl("get", "pod", pod, "--output=jsonpath={.spec.nodeName}");
}

/** The nodes with a label. */
function labelsOf(scene: Scene, key: string): Promise<string> {
  return scene.target.kubectl("get", "nodes", `--selector=${key}`, "--output=name");
}
