import { otherLists } from "#daemon/cni-conf/conf-dir.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { isCrioRunning } from "#host/crio.ts";
import type { Finding } from "./finding.ts";

/**
 * Lists of other runtimes that CRI-O would tear down: at its start it detaches what libcni's cache,
 * which all runtimes share, has of any list, and what is not of a pod.
 */
export async function otherListFindings(
  cniConfDir: string,
  isCrio: () => Promise<boolean> = isCrioRunning,
): Promise<Finding[]> {
  const lists = await otherLists(cniConfDir, new HostConfFiles());
  if (lists.length === 0 || !(await isCrio())) return [];
  return lists.map(({ file, disablesGc }) => ({
    check: file,
    ...(disablesGc
      ? { verdict: "ok", text: "calls Plexus, and CRI-O collects no garbage in it" }
      : {
          verdict: "warning",
          text: 'calls Plexus for another runtime, whose running containers CRI-O detaches when it starts: add "disableGC": true to this list',
        }),
  }));
}
