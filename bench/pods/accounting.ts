import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { ClusterNode } from "../../e2e/cluster/kubernetes/node.ts";
import { prepareTools } from "../../e2e/cluster/kubernetes/tools.ts";
import type { Host } from "../../e2e/cluster/machine/host.ts";
import { metricsAddress } from "./handlers.ts";

const metrics = `http://${metricsAddress}/v1/metrics`;

/** How long containerd's calls of CNI plugins took so far, in milliseconds. */
export async function cniMs({ host }: Pick<ClusterNode, "host">) {
  const { busybox } = await prepareTools();
  const text = await host.run([busybox, "wget", "-qO-", metrics]);
  const sum = (operation: string): number => {
    const series = "network_plugin_operations_duration_\\w+_sum";
    const line = new RegExp(`${series}\\{.*"${operation}"\\} (\\S+)$`, "m").exec(text);
    return Number(line?.[1] ?? 0) * 1000;
  };
  return { start: sum("set_up_pod"), stop: sum("tear_down_pod") };
}

/** The CPU time that the processes of a host have had, in milliseconds, without those that have ended. */
export function cpuMsOf({ pid }: Host): number {
  const own = mountsOf(pid);
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && mountsOf(name) === own);
  const tasks = pids.flatMap((each) =>
    readdirSync(`/proc/${each}/task`).map((task) => `/proc/${each}/task/${task}/schedstat`),
  );
  return tasks.reduce(
    (sum, file) => sum + Number.parseInt(readFileSync(file, "utf8"), 10) / 1e6,
    0,
  );
}

/** The mount namespace of a process; undefined when it has ended. */
function mountsOf(pid: number | string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}
