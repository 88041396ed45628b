import { expect, test } from "vitest";
import { filesOfPlexus } from "../scenarios/install/uninstall.ts";
import { both, home, networkStatus } from "../scenarios/target/objects.ts";
import { kustomize } from "../scenarios/target/plexus.ts";
import type { Lab } from "./lab.ts";

const uninstaller = ["--namespace=kube-system", "daemonset/plexus-uninstall"];

/** A node returns to its primary CNI, as in docs/user/migration.md, while Plexus stays on the other. */
export function handBackScenarios(lab: () => Lab): void {
  test("one node is handed back to its primary CNI, and Plexus attaches pods on the other", async () => {
    const { one, two } = lab();
    await lab().leave(two);
    await two.target.apply(await kustomize(two.target, "deploy/migration/back"));
    await two.target.kubectl("rollout", "status", ...uninstaller, "--timeout=240s");
    expect(await filesOfPlexus(two.target)).toEqual([]);
    expect(networkStatus(await two.startPod("primary-only", both))).toEqual([]);
    await one.startAttached("attached");
    await two.target.kubectl("delete", ...uninstaller);
  });

  test("helm uninstall changes no node while one has pods with networks, and then hands back both", async () => {
    const { one, two } = lab();
    await lab().label(two);
    await one.startPod("attached", both);
    const refused = await lab().helmUninstall();
    expect(refused.exitCode).toBe(1);
    expect(refused.stdout + refused.stderr).toMatch(
      new RegExp(`${one.target.nodeName}: .*${home}/attached`),
    );
    const installed = ["00-plexus.conflist", "plexus"];
    for (const { target } of [one, two]) expect(await filesOfPlexus(target)).toEqual(installed);
    await one.startAttached("meanwhile");
    await one.deletePods("attached", "meanwhile");
    const { exitCode, stderr } = await lab().helmUninstall();
    expect(exitCode, stderr).toBe(0);
    for (const { target } of [one, two]) expect(await filesOfPlexus(target)).toEqual([]);
  });
}
