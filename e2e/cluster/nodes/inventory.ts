import { expect, test } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { run } from "../machine/run.ts";
import { home } from "../scenarios/target/objects.ts";
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
}
