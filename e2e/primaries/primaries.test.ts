import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { networkScenarios } from "../cluster/nodes/networks.ts";
import { filesOfPlexus, uninstallPlexus } from "../cluster/scenarios/install/uninstall.ts";
import { both, networkStatus } from "../cluster/scenarios/target/objects.ts";
import type { Scene } from "../cluster/scenarios/target/scene.ts";
import { Lab } from "./lab.ts";

/** Files of plugins that DEL has to remove; host-local keeps its last address and its lock. */
const pluginFiles = "find /var/lib/cni -type f ! -name lock ! -name 'last_reserved_ip*'";

/** The scenarios build on each other: the last one uninstalls Plexus. */
describe(`Plexus over ${process.env.PRIMARY}`, () => {
  let started: Lab | undefined;
  const lab = (): Lab => {
    if (started === undefined) throw new Error("the cluster could not be started");
    return started;
  };

  beforeAll(async () => {
    started = await Lab.start();
  });

  /** Every scenario must leave both nodes as they were. */
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") console.error(await lab().report());
    await lab().one.clear();
    await lab().two.waitForNothingLeft();
    for (const { target } of [lab().one, lab().two]) {
      expect(await target.inNode(["sh", "-c", pluginFiles])).toBe("");
    }
  }, 600_000);

  afterAll(async () => started?.[Symbol.asyncDispose]());

  networkScenarios(lab);

  test("the primary's agent restarts: pods stay connected, and new ones are attached", async () => {
    const { one, two } = lab();
    await one.startPod("before", both);
    await lab().restartPrimary();
    await two.startAttached("after");
    await expectConnected(one, "before", [two, "after"]);
    expect(await filesOfPlexus(one.target)).toEqual(["00-plexus.conflist", "plexus"]);
  });

  test("the primary's agent writes another configuration: new pods have it, and DEL of the old ones their own", async () => {
    const { one, two } = lab();
    const read = ["cat", "/proc/sys/net/core/somaxconn"];
    await one.startPod("before", both);
    const usual = (await one.exec("before", ...read)).trim();
    const wanted = String(Number(usual) - 1);
    await lab().appendPlugin({ type: "tuning", sysctl: { "net.core.somaxconn": wanted } });
    await lab().restartPrimary();
    for (const scene of [one, two]) {
      const name = `after-${scene.target.nodeName}`;
      await scene.startAttached(name);
      expect((await scene.exec(name, ...read)).trim()).toBe(wanted);
    }
  });

  test("Plexus is uninstalled: the primary attaches and detaches alone", async () => {
    const { one, two } = lab();
    await one.startPod("by-plexus");
    await uninstallPlexus(one.target);
    for (const scene of [one, two]) {
      expect(await filesOfPlexus(scene.target)).toEqual([]);
      const name = `by-primary-${scene.target.nodeName}`;
      expect(networkStatus(await scene.startPod(name, both))).toEqual([]);
      expect(Object.keys(await scene.interfaces(name))).toEqual(["lo", "eth0"]);
      await expectConnected(one, "by-plexus", [scene, name]);
    }
  });
});

/** One pod reaches another on the primary network. */
async function expectConnected(
  from: Scene,
  name: string,
  [to, peer]: readonly [Scene, string],
): Promise<void> {
  const { podIP = "" } = (await to.pod(peer)).status;
  const output = await from.exec(name, "ping", "-c1", "-W5", podIP);
  expect(output).toContain("1 packets received");
}
