// SPDX-License-Identifier: Apache-2.0

import { waitFor } from "../machine/wait.ts";
import { bridges } from "./objects.ts";
import type { Target } from "./target.ts";

/**
 * Everything that an attachment puts on the node, one line each. Left out is what plugins and Plexus keep on
 * purpose: bridges, host-local's last address, the lock of the leases, which primary CNI was chosen. So is a
 * temporary file of a plexusd that was killed while it wrote: one that starts ten minutes later removes it.
 */
const script = `
cd /var/lib/plexus 2>/dev/null && ls -A | grep -vx -e primary-conf -e '[.]gc[.]lock' -e '[.].*[.]tmp' | sed 's/^/record /'
cd /var/lib/cni/networks 2>/dev/null && find . -type f ! -name lock ! -name 'last_reserved_ip*' | sed 's/^/lease /'
cd /var/lib/cni/results 2>/dev/null && find . -type f | sed 's/^/result /'
ls /run/netns 2>/dev/null | sed 's/^/netns /'
ip -oneline link | awk -F': ' '{ sub("@.*", "", $2); print "link " $2 }'
{ nft list ruleset || iptables-save; } 2>/dev/null | grep dnat | sed 's/^[ \\t]*/rule /'
true`;

/** What is on the node, as a list of lines that can be compared. */
export async function nodeState(target: Target): Promise<string[]> {
  const output = await target.inNode(["sh", "-c", script]);
  const ignored = new Set(bridges.map((name) => `link ${name}`));
  return output
    .split("\n")
    .filter((line) => line !== "" && !ignored.has(line))
    .sort();
}

/** Waits until the node has again what it had, and nothing more but lines of one kind. Else the difference is told. */
export async function waitForNodeState(
  target: Target,
  { expected, except }: { readonly expected: readonly string[]; readonly except: string },
): Promise<void> {
  let difference: string[] = [];
  const restored = async (): Promise<boolean> => {
    const now = await nodeState(target);
    const more = now
      .filter((line) => !(expected.includes(line) || line.startsWith(`${except} `)))
      .map((line) => `+ ${line}`);
    const less = expected.filter((line) => !now.includes(line)).map((line) => `- ${line}`);
    difference = [...more, ...less];
    return difference.length === 0;
  };
  const options = { what: "nothing is left", timeoutMs: 180_000, intervalMs: 500 };
  await waitFor(restored, options).catch((error: unknown) => {
    throw new Error(`${String(error)}:\n${difference.join("\n")}`);
  });
}

/** What is on the node of one kind, as lines without it: `linesOf(state, "record")`. */
export function linesOf(state: readonly string[], kind: string): string[] {
  return state
    .filter((line) => line.startsWith(`${kind} `))
    .map((line) => line.slice(kind.length + 1));
}

/** The attachment records of the node, those of sandboxes that are gone included. */
export async function recordsOf(target: Target): Promise<string[]> {
  return linesOf(await nodeState(target), "record").filter((name) => name.endsWith(".json"));
}
