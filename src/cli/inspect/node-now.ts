import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { NodeNow } from "#engine/leftovers/leftover.ts";
import { readBootId } from "#host/boot-id.ts";
import { readHostView } from "#host/host-view.ts";
import { bootClockMs } from "#lib/boot-clock.ts";

/**
 * What this process knows of the node, to tell leftovers. In a container it does not see where
 * namespaces are mounted, so none is known to be gone.
 * @throws Error as of node:fs
 */
export async function readNodeNow(): Promise<NodeNow> {
  const [bootId, view] = await Promise.all([readBootId(), readHostView()]);
  const isOnHost = view.sees("/");
  const isNothingAt = (netns: string): boolean =>
    isOnHost && !existsSync(netns) && existsSync(directoryOf(netns));
  return { bootId, clockMs: bootClockMs(), date: new Date().toISOString(), isNothingAt };
}

/** Where the namespace would be seen. The directory of a process is gone with it. */
function directoryOf(netns: string): string {
  return netns.startsWith("/proc/") ? "/proc/self" : dirname(netns);
}
