// SPDX-License-Identifier: Apache-2.0

import { chmod, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { repositoryRoot } from "../../support/paths.ts";
import { type RunResult, tryRun } from "../machine/run.ts";
import { home } from "./target/objects.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, skipGiven, type Target } from "./target/target.ts";

/** Questions about a pod without net1, asked with kubectl plexus as installed on a workstation. */
export function explainScenarios(scene: () => Scene): void {
  describe("kubectl plexus", () => {
    test("explains pods and the next step, checks the node, and names a missing permission", async () => {
      const { target } = scene();
      await scene().startPod("found", { networks: "red" });
      const found = await kubectlPlexus(target, ["explain", `${home}/found`]);
      expect(found.stdout.split("\n")[0]).toMatch(
        new RegExp(`^All networks are attached: eth0=\\S+, net1=${home}/red\\.$`),
      );
      expect(found.exitCode).toBe(0);

      await scene().createPod("lost", { networks: "nowhere" });
      await scene().waitForEvent("lost", "MissingDefinition");
      const lost = await kubectlPlexus(target, ["explain", `${home}/lost`]);
      expect(lost.exitCode).toBe(1);
      expect(lost.stdout.split("\n")[0]).toContain(
        `there is no NetworkAttachmentDefinition ${home}/nowhere, which the pod asks for): create the definition`,
      );
      expect(lost.stdout).toMatch(/^LAST EVENT +REASON +MESSAGE\n.* MissingDefinition /ms);
      expect(await findingOf(target, "lost")).toBe("MissingDefinition");
      const asked = await kubectlPlexus(target, ["explain", `${home}/lost`], "--as=nobody");
      expect(asked).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining(`you may not get pods in ${home}: ask for that right`),
      });

      const { stdout } = await kubectlPlexus(target, ["doctor", "-o", "json"]);
      const findings = JSON.parse(stdout) as { check: string; verdict: string }[];
      const verdicts = findings.map(({ check, verdict }) => [check, verdict]);
      expect(Object.fromEntries(verdicts)).toMatchObject({
        plexusd: "ok",
        "node configuration": "ok",
        "pods and definitions": "ok",
        shim: "ok",
      });
    });

    test("reports that another CNI configuration shadows Plexus, and a pod started meanwhile", async (context) => {
      skipGiven(context);
      const { target } = scene();
      const waitForFinding = (pod: string, finding: string): Promise<true> =>
        eventually(
          `explain finds ${finding}`,
          async () => (await findingOf(target, pod)) === finding,
        );
      const [dir, first] = ["/etc/cni/net.d", "00-first.conflist"];
      const copy = `cd ${dir} && cp $(ls | grep -v plexus | head -n 1) ${first}`;
      await target.inNode(["sh", "-c", copy]);
      try {
        await eventually("plexusd reports the shadowing", async () =>
          (await kubectlPlexus(target, ["doctor"])).stdout.includes("shadowed"),
        );
        await scene().startPod("overlooked", { networks: "red" });
        await waitForFinding("overlooked", "PlexusConfShadowed");
      } finally {
        await target.inNode(["rm", `${dir}/${first}`]);
      }
      await waitForFinding("overlooked", "NotAttached");
      await scene().startPod("of-the-host", { networks: "red", spec: { hostNetwork: true } });
      await waitForFinding("of-the-host", "HostNetwork");
    });
  });
}

async function findingOf(target: Target, pod: string): Promise<string> {
  const { stdout } = await kubectlPlexus(target, ["explain", "-o", "json", `${home}/${pod}`]);
  return JSON.parse(stdout).advice.finding;
}

/** Runs deploy/kubectl-plexus with a kubectl that reaches the cluster; `flags` are kubectl's own. */
async function kubectlPlexus(
  target: Target,
  args: readonly string[],
  ...flags: string[]
): Promise<RunResult> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-kubectl-"));
  const kubectl = join(dir.path, "kubectl");
  const path = process.env.PATH ?? "";
  const quoted = target.kubectlCommand(...flags).map((each) => `'${each}'`);
  await writeFile(kubectl, `#!/bin/sh\nPATH='${path}' exec ${quoted.join(" ")} "$@"\n`);
  await chmod(kubectl, 0o755);
  const script = join(repositoryRoot, "deploy/kubectl-plexus");
  return await tryRun([script, ...args], { env: { PATH: `${dir.path}:${path}` } });
}
