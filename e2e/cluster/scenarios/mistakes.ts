// SPDX-License-Identifier: Apache-2.0

import { expect, onTestFinished, test } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { type Mistake, mistakesOn } from "../../support/node/mistakes.ts";
import { waitUntil } from "../../support/wait.ts";
import { recordsOf } from "./target/node-state.ts";
import { home } from "./target/objects.ts";
import { readConfig, waitForPlexus, writeConfig } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { isGiven, ownOnly, type Target } from "./target/target.ts";

/** How many sandboxes of a pod are waited for: one more than it may leave records. */
const attempts = 5;

/** What stays of definitions with mistakes in them, while the kubelet makes sandbox after sandbox. */
export function mistakeScenarios(scene: () => Scene): void {
  test("definitions with mistakes leave few records while their pods are there, and none afterwards", {
    timeout: 900_000,
  }, async (context) => {
    context.skip(isGiven, ownOnly);
    const { target } = scene();
    const before = await readConfig(target);
    onTestFinished(() => configure(target, before));
    await configure(target, `${before}\nfailedAddGraceMs: 30000\n`);
    const { refused, passing } = mistakesOn("net0");
    const mistakes = [...refused, ...passing];
    for (const mistake of mistakes) {
      await target.apply(definition(mistake));
      await scene().createPod(mistake.name, { networks: mistake.name });
    }
    let most = 0;
    await waitUntil(
      `every pod has had ${attempts} sandboxes`,
      async () => {
        most = Math.max(most, (await recordsOf(target)).length);
        const counts = mistakes.map(({ name }) => failuresOf(scene(), name));
        return (await Promise.all(counts)).every((count) => count >= attempts);
      },
      { timeoutMs: 300_000, intervalMs: 2000 },
    );
    // Each of those that are not refused at once keeps four, and others the sandbox that is being made.
    expect(most).toBeLessThanOrEqual(4 * passing.length + mistakes.length);
    await scene().waitForEvent("vlan-5000", "AttachmentForgotten");

    await scene().deletePods(...mistakes.map(({ name }) => name));
    for (const { name } of mistakes)
      await scene().kubectl("delete", "network-attachment-definition", name);
    await waitUntil(
      "no record is left",
      async () => {
        await retryLeftovers(target);
        return (await recordsOf(target)).length === 0;
      },
      { timeoutMs: 180_000, intervalMs: 2000 },
    );
  });
}

function definition({ name, plugins }: Mistake): object {
  return nad(name, list(name, ...plugins), { namespace: home });
}

/** How often the kubelet could not make a sandbox of a pod. */
async function failuresOf(scene: Scene, name: string): Promise<number> {
  const about = `--field-selector=involvedObject.name=${name},reason=FailedCreatePodSandBox`;
  const { items } = await scene.get<{ items: { count?: number }[] }>("events", about);
  return items.reduce((sum, { count = 1 }) => sum + count, 0);
}

/** `plexusctl gc` on the node; some may remain. */
async function retryLeftovers(target: Target): Promise<void> {
  const variables = "CNI_PATH=/opt/cni/bin PLEXUS_SOCKET=/run/plexus/plexus.sock";
  await target.inNode(["sh", "-c", `${variables} /opt/cni/bin/plexus agent --once || true`]);
}

async function configure(target: Target, text: string): Promise<void> {
  await writeConfig(target, text);
  await target.kubectl("--namespace=kube-system", "rollout", "restart", "daemonset/plexus");
  await waitForPlexus(target);
}
