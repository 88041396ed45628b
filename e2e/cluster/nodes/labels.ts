import { expect, test } from "vitest";
import { both, home } from "../scenarios/target/objects.ts";
import type { Scene } from "../scenarios/target/scene.ts";
import { isFromMultus, type Lab } from "./lab.ts";

const problemOfShim = /^PROBLEM +shim /m;

/** The interfaces of a pod on a node without Plexus. */
const withoutPlexus = ["lo", "eth0", ...(isFromMultus ? ["net1", "net2"] : [])];

/** Plexus comes to a cluster of Multus node by node, as docs/user/migration.md has it. */
export function labelScenarios(lab: () => Lab): void {
  test("Plexus on one labelled node attaches pods there, and leaves the other node and its pods to Multus", async () => {
    const { one, two } = lab();
    const before = await filesOfPlexus(two);
    await lab().label(one);
    await one.startAttached("attached");
    const explained = await lab().kubectlPlexus("explain", `${home}/attached`);
    expect(explained.stdout).toMatch(/^All networks are attached/);
    await two.startPod("not-attached", both);
    expect(Object.keys(await two.interfaces("not-attached"))).toEqual(withoutPlexus);
    expect(await filesOfPlexus(two)).toEqual(before);
    const { stdout } = await lab().kubectlPlexus("doctor");
    expect(stdout).toContain(`does not select node ${two.target.nodeName}`);
  });

  test("Plexus on the other node too: kubectl plexus doctor reports both, and the problem of one", async () => {
    const { one, two } = lab();
    const [first, second] = [one.target.nodeName, two.target.nodeName];
    if (isFromMultus) await two.startPod("by-multus", both);
    await lab().label(two);
    if (isFromMultus) {
      expect(Object.keys(await two.interfaces("by-multus"))).toEqual(withoutPlexus);
      const { stdout } = await lab().kubectlPlexus("explain", `${home}/by-multus`);
      expect(stdout).toMatch(/^The pod was attached by Multus/);
    }
    await two.startAttached("attached");
    const healthy = await lab().kubectlPlexus("doctor");
    expect(healthy.stdout).toContain(first);
    expect(healthy.stdout).toContain(second);
    expect(healthy.exitCode, healthy.stdout).toBe(0);

    const shim = "/opt/cni/bin/plexus";
    await two.target.inNode(["mv", shim, `${shim}.away`]);
    try {
      const ill = await lab().kubectlPlexus("doctor");
      expect(ill.exitCode, ill.stdout).toBe(1);
      const [ofFirst, ofSecond] = ill.stdout.split(`== ${second}\n`);
      expect(ofFirst).not.toMatch(problemOfShim);
      expect(ofSecond).toMatch(problemOfShim);
    } finally {
      await two.target.inNode(["mv", `${shim}.away`, shim]);
    }
  });
}

/** The places on a node that Plexus writes to, with every file's size and time of change. */
async function filesOfPlexus({ target }: Scene): Promise<string> {
  const places = [
    "/etc/cni/net.d",
    "/etc/plexus",
    "/opt/cni/bin",
    "/run/plexus",
    "/var/lib/plexus",
  ];
  return target.inNode(["find", ...places, "-printf", "%p %s %T@\\n"]);
}
