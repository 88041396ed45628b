// SPDX-License-Identifier: Apache-2.0

import { expect, onTestFinished, test } from "vitest";
import { networkStatus } from "./objects.ts";
import {
  parkPlexus,
  readConfig,
  unparkPlexus,
  waitForPlexus,
  waitForReady,
  writeConfig,
} from "./plexus.ts";
import type { Scene } from "./scene.ts";
import type { Target } from "./target.ts";

const confDir = "/etc/cni/net.d";
const primaryDir = `${confDir}/primary.d`;
const primary = "10-primary.conflist";
const own = "00-plexus.conflist";

/** The primary CNI writes where no container runtime looks: what docs/operations/fresh-nodes.md says first. */
export function primaryDirScenarios(scene: () => Scene): void {
  test("whose primary CNI has another directory is not ready before Plexus is there", {
    timeout: 900_000,
  }, async () => {
    const { target } = scene();
    const before = await readConfig(target);
    onTestFinished(async () => {
      await inConfDir(target, `! [ -e ${primaryDir}/${primary} ] || mv ${primaryDir}/${primary} .`);
      await inConfDir(target, `rm -rf ${primaryDir}`);
      await writeConfig(target, before);
      await target.kubectl("--namespace=kube-system", "rollout", "restart", "daemonset/plexus");
      await unparkPlexus(target);
      await waitForPlexus(target);
    });
    await parkPlexus(target);
    await inConfDir(target, `mkdir ${primaryDir}; mv ${primary} ${primaryDir}; rm ${own}`);
    await writeConfig(target, `${before}\nprimary:\n  dir: ${primaryDir}\n`);
    await waitForReady(target, "False");

    await scene().createPod("early", { networks: "red" });
    await unparkPlexus(target);
    await waitForPlexus(target);
    expect(networkStatus(await scene().waitForPod("early"))).toHaveLength(2);
    expect(await inConfDir(target, "ls")).toBe(`${own}\nprimary.d`);
  });
}

/** Runs commands of the shell in the container runtime's directory. */
async function inConfDir(target: Target, commands: string): Promise<string> {
  return target.inNode(["sh", "-euc", `cd ${confDir}; ${commands}`]);
}
