import { readFile, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { parseRecord } from "#records/record-file.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { standaloneEnvironment } from "../../support/plexusd.ts";

/*
 * A node that is itself a container (LXC, Incus, Proxmox): its boot ID, which the shim and plexus-standalone read, is
 * not the one that plexusd reads in its container.
 */
const bootIdPath = "/proc/sys/kernel/random/boot_id";

needsPlexusd("it and plexus-standalone serve the same pods", () => {
  test("pods that run are detached neither by plexus-standalone nor by the next plexusd, which read other boot IDs", async ({
    idleNode: node,
  }) => {
    node.defaultNetwork = bridge("default", 88);
    node.confExtra = { cniVersion: "1.1.0" };
    await startWithBootId(node, "c0a1b2c3-0000-4000-8000-00000000000d");
    // One after another: pods that come to a new bridge at once change its MAC, and CHECK fails (C-8).
    const first = await podOn(node, "first");
    const second = await podOn(node, "second");
    const gone = await podOn(node, "gone");
    await node.stopDaemon();
    for (let call = 0; call < 3; call++) await statusByStandalone(node);
    expect(await leftovers(node)).not.toContain("default/");
    const third = await node.pod("third");
    await third.mustAdd({ env: byStandalone(node) });
    await node.lab.deleteNetns(gone.netns);
    for (let call = 0; call < 5; call++) await statusByStandalone(node);
    expect(await leftovers(node)).not.toContain("default/gone");
    expect(gone.isRecorded, "one sign: its namespace; the boots began together").toBe(true);
    await gone.mustDel({ env: byStandalone(node) });
    await startWithBootId(node, "c0a1b2c3-0000-4000-8000-00000000000e");
    await status(node);
    for (const pod of [first, second, third]) {
      expect(pod.isRecorded).toBe(true);
      await pod.ping("10.88.0.1");
      await pod.mustCheck();
      await pod.mustDel();
    }
  });

  test("after a suspend, the clocks in records of plexusd and plexus-standalone are the same", async ({
    idleNode: node,
  }) => {
    node.defaultNetwork = bridge("default", 88);
    await startWithBootId(node, "c0a1b2c3-0000-4000-8000-00000000000f");
    const [before, after] = [await node.pod("before"), await node.pod("after")];
    await before.mustAdd();
    await suspend(node);
    await after.mustAdd({ env: byStandalone(node) });
    const elapsedMs = (await clockOf(after)) - (await clockOf(before));
    expect(elapsedMs).toBeGreaterThan(0);
    expect(elapsedMs).toBeLessThan((suspendedS * 1000) / 2);
  });

  test("after a suspend, a record that something emptied before it stays while libcni has its ADD", async ({
    idleNode: node,
  }) => {
    node.defaultNetwork = bridge("default", 88);
    node.confExtra = { cniVersion: "1.1.0" };
    await startWithBootId(node, "c0a1b2c3-0000-4000-8000-000000000010");
    const pod = await node.pod("emptied");
    await pod.mustAdd();
    await node.stopDaemon();
    const results = "/var/lib/cni/results";
    const result = join(results, `cluster-${pod.containerId}-eth0`);
    await node.lab.run("mkdir", "-p", results);
    await node.lab.run("touch", result);
    const beforeS = Number((await readFile("/proc/uptime", "utf8")).split(" ")[0]) + suspendedS / 2;
    await truncate(pod.recordPath, 40);
    const emptiedAt = new Date(Date.now() - beforeS * 1000);
    await utimes(pod.recordPath, emptiedAt, emptiedAt);
    await suspend(node);
    for (let call = 0; call < 3; call++) await statusByStandalone(node);
    expect(pod.isRecorded).toBe(true);
    await pod.ping("10.88.0.1");
    await node.lab.run("rm", result);
    await statusByStandalone(node);
    expect(pod.isRecorded, "two signs: its time, and that no ADD has succeeded").toBe(false);
  });
});

const suspendedS = 36_000;

/** CLOCK_BOOTTIME counts the time of a suspend, CLOCK_MONOTONIC does not: here, two hours of work. */
async function suspend(node: PlexusNode): Promise<void> {
  const { shim } = node;
  const suspended = join(node.lab.dir, "suspended");
  const command = `exec unshare -T --monotonic 7200 --boottime ${suspendedS} -- ${shim} "$@"`;
  await writeFile(suspended, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  Object.assign(node, { shim: suspended });
  onTestFinished(() => void Object.assign(node, { shim }));
}

async function clockOf({ recordPath: path, containerId }: TestPod): Promise<number> {
  const place = { path, key: { containerId, ifName: "eth0" } };
  return parseRecord(await readFile(path), place).record.clockMs;
}

/** Starts a plexusd that reads this boot ID. It reads it once. */
async function startWithBootId(node: PlexusNode, bootId: string): Promise<void> {
  const file = join(node.lab.dir, "boot-id");
  await writeFile(file, `${bootId}\n`);
  await node.lab.run("mount", "--bind", file, bootIdPath);
  onTestFinished(() => node.stopDaemon());
  await node.startDaemon();
  await node.lab.run("umount", bootIdPath);
}

async function podOn(node: PlexusNode, name: string): Promise<TestPod> {
  const pod = await node.pod(name);
  await pod.mustAdd();
  return pod;
}

/** The environment of calls that plexus-standalone serves. */
function byStandalone({ stateDir, manifestsDir: manifests, lab }: PlexusNode) {
  return standaloneEnvironment({ stateDir, manifests, socket: join(lab.dir, "none.sock") });
}

async function status(node: PlexusNode, env: Record<string, string> = {}): Promise<void> {
  const outcome = await node.call({ command: "STATUS", conf: node.conf(), env });
  expect(outcome, outcome.stderr).toMatchObject({ exitCode: 0 });
}

function statusByStandalone(node: PlexusNode): Promise<void> {
  return status(node, byStandalone(node));
}

/** What plexusctl on the node calls leftovers. */
function leftovers(node: PlexusNode): Promise<string> {
  const command = [nodeBinary(), distPath("plexusctl.js"), "records", "--leftovers"] as const;
  return node.lab.run(...command, "--state-dir", node.stateDir);
}
