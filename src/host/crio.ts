import { readFile } from "node:fs/promises";

/**
 * Whether CRI-O listens in this network namespace; on the host network, that is the node's. CRI-O
 * remembers which plugin attached a sandbox, and calls that to detach it. containerd calls the
 * plugins of its current configuration.
 */
export async function isCrioRunning(): Promise<boolean> {
  return /\/crio\.sock$/m.test(await readFile("/proc/net/unix", "utf8"));
}
