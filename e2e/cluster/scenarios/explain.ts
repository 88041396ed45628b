// SPDX-License-Identifier: Apache-2.0

import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { repositoryRoot } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import { type RunResult, tryRun } from "../machine/run.ts";
import { home } from "./target/objects.ts";
import type { Scene } from "./target/scene.ts";
import { isGiven, ownOnly, type Target } from "./target/target.ts";

/** What people ask when a pod has no net1: kubectl plexus, as it is installed on a desk. */
export function explainScenarios(scene: () => Scene): void {
  describe("kubectl plexus", () => {
    test("explains a pod whose definition is missing, with the next step", async () => {
      await scene().createPod("lost", { networks: "nowhere" });
      await scene().waitForEvent("lost", "MissingDefinition");
      const text = await kubectlPlexus(scene().target, ["explain", `${home}/lost`]);
      expect(text.exitCode).toBe(1);
      expect(text.stdout.split("\n")[0]).toContain(
        `there is no NetworkAttachmentDefinition ${home}/nowhere, which the pod asks for): create the definition`,
      );
      expect(text.stdout).toMatch(/^LAST EVENT +REASON +MESSAGE\n.* MissingDefinition /ms);
      const json = await kubectlPlexus(scene().target, ["explain", "-o", "json", `${home}/lost`]);
      expect(JSON.parse(json.stdout).advice.finding).toBe("MissingDefinition");
    });

    test("explains a pod that has what it asks for", async () => {
      await scene().startPod("found", { networks: "red" });
      const { exitCode, stdout } = await kubectlPlexus(scene().target, [
        "explain",
        `${home}/found`,
      ]);
      expect(stdout.split("\n")[0]).toMatch(
        new RegExp(`^All networks are attached: eth0=\\S+, net1=${home}/red\\.$`),
      );
      expect(exitCode).toBe(0);
    });

    test("explains a node whose runtime calls another configuration, and a pod from that time", async (context) => {
      // A node that the tests do not own keeps its configuration.
      if (isGiven) context.skip(ownOnly);
      const { target } = scene();
      const waitForFinding = (pod: string, finding: string): Promise<true> =>
        waitUntil(`explain finds ${finding}`, async () => {
          const json = await kubectlPlexus(target, ["explain", "-o", "json", `${home}/${pod}`]);
          return JSON.parse(json.stdout).advice.finding === finding;
        });
      const [dir, first] = ["/etc/cni/net.d", "00-first.conflist"];
      const copy = `cd ${dir} && cp $(ls | grep -v plexus | head -n 1) ${first}`;
      await target.inNode(["sh", "-c", copy]);
      try {
        await waitUntil("plexusd sees it", async () =>
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

    test("examines the node", async () => {
      const { stdout } = await kubectlPlexus(scene().target, ["doctor", "-o", "json"]);
      const findings = JSON.parse(stdout) as { check: string; verdict: string }[];
      const verdicts = new Map(findings.map(({ check, verdict }) => [check, verdict]));
      expect(Object.fromEntries(verdicts)).toMatchObject({
        plexusd: "ok",
        "node configuration": "ok",
        "pods and definitions": "ok",
        shim: "ok",
      });
    });

    test("names the right that is missing", async () => {
      const { target } = scene();
      const asked = await kubectlPlexus(target, ["explain", `${home}/lost`], "--as=nobody");
      expect(asked).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining(`you may not get pods in ${home}: ask for that right`),
      });
    });
  });
}

/** Runs deploy/kubectl-plexus with a kubectl that reaches the cluster; `flags` are kubectl's own. */
async function kubectlPlexus(
  target: Target,
  args: readonly string[],
  ...flags: string[]
): Promise<RunResult> {
  const dir = await mkdtemp(join(tmpdir(), "plexus-kubectl-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const command = target.own?.kubectlCommand(...flags) ?? ["kubectl", ...flags];
  const kubectl = join(dir, "kubectl");
  const path = process.env.PATH ?? "";
  const quoted = command.map((each) => `'${each}'`).join(" ");
  await writeFile(kubectl, `#!/bin/sh\nPATH='${path}' exec ${quoted} "$@"\n`);
  await chmod(kubectl, 0o755);
  const script = join(repositoryRoot, "deploy/kubectl-plexus");
  return tryRun([script, ...args], { env: { PATH: `${dir}:${path}` } });
}
