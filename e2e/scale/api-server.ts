import { readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { processes } from "../support/processes.ts";
import { waitUntil } from "../support/wait.ts";

/** Of what is slowed down: it runs for one of so many parts of the time. */
const partMs = 20;
/** Until its nsenter has stopped, also on a busy machine. */
const settleMs = 500;

/** The values of the API server's metrics since its start. */
export class ApiServerMetrics {
  readonly #lines: readonly string[];

  private constructor(lines: readonly string[]) {
    this.#lines = lines;
  }

  static async read(cluster: Cluster): Promise<ApiServerMetrics> {
    return new ApiServerMetrics((await cluster.kubectl("get", "--raw=/metrics")).split("\n"));
  }

  /** The sum of a metric over the series that have all these labels, each as `name="value"`. */
  sum(name: string, ...labels: readonly string[]): number {
    return this.#lines
      .filter((line) => line.startsWith(`${name}{`) && labels.every((each) => line.includes(each)))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" "))), 0);
  }

  /** Requests that plexusd's priority levels had no room for. */
  get refused(): number {
    return this.sum("apiserver_flowcontrol_rejected_requests_total", 'priority_level="plexus-');
  }

  /** Requests of the scheduler and the controllers, and how many of them waited for 0.1 s or longer. */
  get ofControllers(): { readonly all: number; readonly waited: number } {
    const name = "apiserver_flowcontrol_request_wait_duration_seconds";
    const level = 'priority_level="workload-high"';
    const all = this.sum(`${name}_count`, level);
    return { all, waited: all - this.sum(`${name}_bucket`, level, 'le="0.1"') };
  }

  /** Requests that were answered when their clients had given up. */
  get late(): number {
    return this.sum("apiserver_request_total", 'code="504"');
  }
}

/** Has the API server run for a part of the time only, until it is disposed. */
export function slowDown({ controlPlane }: Cluster, factor: number): AsyncDisposable {
  const pid = apiServerPid(controlPlane.host.pid);
  // The nsenter that waits for it stops with it, soon after it.
  const both = [pid, parentOf(pid)];
  const resume = (): void => {
    for (const each of both) process.kill(each, "SIGCONT");
  };
  let isSlow = true;
  const slow = async (): Promise<void> => {
    while (isSlow) {
      process.kill(pid, "SIGSTOP");
      await sleep(partMs * (factor - 1));
      resume();
      await sleep(partMs);
    }
    await sleep(settleMs);
    resume();
    await waitUntil("it runs", () => both.every((each) => stateOf(each) !== "T"));
  };
  const ended = slow();
  return {
    async [Symbol.asyncDispose]() {
      isSlow = false;
      await ended;
    },
  };
}

/** The fields of /proc/PID/stat from the state on. */
function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function stateOf(pid: number): string | undefined {
  return statOf(pid)[0];
}

function parentOf(pid: number): number {
  return Number(statOf(pid)[1]);
}

/** The API server in the network namespace of a process. */
function apiServerPid(neighbour: number): number {
  const netnsOf = (pid: number): string => readlinkSync(`/proc/${pid}/ns/net`);
  const isApiServer = (pid: number): boolean =>
    readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "kube-apiserver" &&
    netnsOf(pid) === netnsOf(neighbour);
  const found = processes().find(({ pid }) => isApiServer(pid));
  if (found === undefined) throw new Error("the API server does not run");
  return found.pid;
}
