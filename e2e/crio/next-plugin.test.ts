import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { NextPlugin } from "../cluster/machine/next-plugin.ts";
import { nad } from "../support/node/manifests.ts";
import { waitUntil } from "../support/wait.ts";
import { CrioNode } from "./node.ts";
import { CrioPod } from "./pod.ts";

const storage = { cniVersion: "1.0.0", name: "storage", type: "bridge", bridge: "storage0" };

/** How often CRI-O is asked in vain for a sandbox. */
const attempts = 35;

/** More than four sandboxes of a pod are never attached at once. */
const sandboxesMax = 4;

test("a plugin after Plexus's: CRI-O starts pods without Plexus while it is missing; while it fails, addresses do not run out", async () => {
  const node = await CrioNode.create();
  onTestFinished(() => node[Symbol.asyncDispose]());
  await node.manifest("networks", nad("storage", storage));
  await node.startPlexusd();
  const plugin = await NextPlugin.append(node);
  const uid = randomUUID();
  const attempt = (): Promise<CrioPod> =>
    CrioPod.run(node, "retried", { networks: "storage", uid });

  await waitUntil("plexusd has seen the plugin", async () =>
    (await node.plexusctl("doctor")).stdout.includes(`${plugin.type}: not installed`),
  );
  // CRI-O takes the next list: the primary CNI's.
  const without = await attempt();
  expect(await without.links()).toEqual(["eth0"]);
  await expectFinding(node, "NextPluginMissing", "with CRI-O start without Plexus");
  await without.remove();
  expect(await node.remains()).toEqual([]);

  await plugin.installFailing();
  await waitUntil("CRI-O has the list", async () => {
    const pod = await attempt().catch(() => undefined);
    await pod?.remove();
    return pod === undefined;
  });
  let most = 0;
  for (let n = 0; n < attempts; n++) {
    await expect(attempt()).rejects.toThrow(/the mesh is not ready|earlier sandboxes/);
    most = Math.max(most, (await remaining(node, "address leases")).length);
  }
  expect(most).toBeLessThanOrEqual(sandboxesMax);
  await expectFinding(node, "RepeatedFailures", "RepeatedFailures");
  const { stdout } = await node.plexusctl("records", "--leftovers");
  expect(stdout.match(/its pod has a later sandbox/g)).toHaveLength(sandboxesMax - 1);
  await detachLeftovers(node);
  expect(await remaining(node, "address leases")).toHaveLength(1);

  await plugin.installWorking();
  const pod = await waitUntil("the pod starts", attempt);
  expect(await pod.links()).toEqual(["eth0", "net1"]);
  await detachLeftovers(node);
  expect(await remaining(node, "attachment records")).toHaveLength(1);
  await waitUntil("doctor finds nothing", async () => {
    return (await node.plexusctl("doctor")).exitCode === 0;
  });
  await pod.remove();
  expect(await node.remains()).toEqual([]);
});

/** As docs/operations/reliability.md says, at once: no DEL comes while the plugin fails. */
async function detachLeftovers(node: CrioNode): Promise<void> {
  const env = { CNI_PATH: "/opt/cni/bin" };
  await node.host.run(["/opt/cni/bin/plexus", "agent", "--once"], { env });
}

async function remaining(node: CrioNode, kind: string): Promise<string[]> {
  return (await node.remains()).filter((line) => line.startsWith(`${kind}: `));
}

/** What explain finds of the pod, and doctor says of the node. */
async function expectFinding(node: CrioNode, finding: string, words: string): Promise<void> {
  const explained = await node.plexusctl("explain", "-o", "json", "default/retried");
  expect(JSON.parse(explained.stdout).advice.finding).toBe(finding);
  expect(explained.exitCode).toBe(1);
  const doctor = await node.plexusctl("doctor");
  expect(doctor.stdout).toContain(words);
  expect(doctor.exitCode).toBe(1);
}
