import { type HostState, type HostStateKind, readHostState } from "../../../support/host-state.ts";
import { bridges } from "./objects.ts";
import { eventually, type Target } from "./target.ts";

/**
 * What is looked at on the node. A plexusd that was killed while it wrote leaves a temporary file, which one that
 * starts ten minutes later removes; everything else on a node changes with Kubernetes' own doings.
 */
const usualKinds: readonly HostStateKind[] = [
  "attachment records",
  "locks",
  "address leases",
  "cached results",
  "netns",
  "links",
  "port mappings",
];

/** What attachments have put on the node, but for the bridges, which the bridge plugin leaves on purpose. */
export async function nodeState(
  target: Target,
  kinds: readonly HostStateKind[] = usualKinds,
): Promise<HostState> {
  const run = (command: [string, ...string[]]): Promise<string> => target.inNode(command);
  const state = await readHostState({ run, stateDir: "/var/lib/plexus" }, { kinds });
  return { ...state, links: state.links?.filter((name) => !bridges.includes(name)) ?? [] };
}

/** The attachment records of the node, those of sandboxes that are gone included. */
export async function recordsOf(target: Target): Promise<string[]> {
  const { "attachment records": files = [] } = await nodeState(target);
  return files.filter((name) => name.endsWith(".record"));
}

/** Waits until the node has so many attachment records. */
export async function waitForRecords(target: Target, count: number): Promise<void> {
  await eventually(`${count} pods are attached`, async () => {
    return (await recordsOf(target)).length === count;
  });
}
