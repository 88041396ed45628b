import { expect } from "vitest";
import type { PlexusNode } from "./plexus-node.ts";
import type { PodOptions, TestPod } from "./test-pod.ts";

/** Two pods that reach each other by what a test attaches them to. */
export async function twoPods(
  node: PlexusNode,
  options: PodOptions = {},
): Promise<[TestPod, TestPod]> {
  return [await node.newPod(options), await node.newPod(options)];
}

/**
 * Attaches both pods, checks them, pings one from the other by the interface, and detaches them.
 * @param options `runtimeConfig` is the first pod's; `checks` says whether CHECK has to succeed
 */
export async function lifeCycle(
  pods: [TestPod, TestPod],
  options: { ifName: string; runtimeConfig?: object; checks?: boolean },
): Promise<void> {
  // portmap 1.1.1 fails CHECK for IPv4 mappings, as it looks for them among the IPv6 rules.
  const { runtimeConfig, checks = runtimeConfig === undefined } = options;
  const [a, b] = pods;
  await a.mustAdd(runtimeConfig === undefined ? {} : { runtimeConfig });
  await b.mustAdd();
  if (checks) for (const pod of pods) await pod.mustCheck();
  const addresses = await b.addresses(options.ifName);
  expect(addresses).not.toHaveLength(0);
  for (const address of addresses) {
    await a.ping(address.split("/")[0] ?? "", options.ifName);
  }
  for (const pod of pods) await pod.mustDel();
}

/**
 * Expects of a second cycle that nothing is left. The first one makes what plugins keep for good: bridges, shared
 * chains, lock files.
 */
export async function leavesNothing(
  node: PlexusNode,
  pods: [TestPod, TestPod],
  cycle: () => Promise<void>,
): Promise<void> {
  await cycle();
  const before = await node.hostState();
  await cycle();
  expect(await node.changesSince(before)).toEqual([]);
  for (const pod of pods) expect(await pod.links()).toEqual({});
}
