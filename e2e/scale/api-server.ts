import { execa } from "execa";
import { apiServerUrl } from "../cluster/kubernetes/addresses.ts";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";

/** The sum of a metric over the series that have all these labels, each as `name="value"`. */
export type Sum = (metric: string, ...labels: readonly string[]) => number;
export type Run = () => Promise<unknown>;
export type Agent = Readonly<Record<"start" | "attach", Run>>;

/** The API server's metrics since its start. */
export async function metricsOf(cluster: Cluster): Promise<Sum> {
  const lines = (await cluster.kubectl("get", "--raw=/metrics")).split("\n");
  const isOf = (line: string, metric: string): boolean =>
    line.startsWith(metric) && "{ ".includes(line.charAt(metric.length));
  return (metric, ...labels) =>
    lines
      .filter((line) => isOf(line, metric) && labels.every((each) => line.includes(each)))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" "))), 0);
}

/** What something adds to the metrics. */
export async function addedBy(cluster: Cluster, run: Run): Promise<Sum> {
  const before = await metricsOf(cluster);
  await run();
  const after = await metricsOf(cluster);
  return (...of) => after(...of) - before(...of);
}

/**
 * Does something while the API server runs for 20 of 100 ms only. Its nsenter stops when it sees that the server has
 * stopped, perhaps after the server has continued: it is to continue for good.
 */
export async function whileSlow({ controlPlane }: Cluster, run: Run): Promise<void> {
  const pids = (await controlPlane.apiServerPids()).join(" ");
  const [stop, go] = [`kill -STOP ${pids}`, `kill -CONT ${pids}`];
  const loop = `while :; do ${stop}; sleep 0.08; ${go}; sleep 0.02; done`;
  const slow = execa("sh", ["-c", `trap "${go}; sleep 1; ${go}; exit" TERM; ${loop}`]);
  try {
    await run();
  } finally {
    slow.kill();
    await slow;
  }
}

/** While something is done, kube-scheduler creates twenty events a second. Returns the p99 of their ms. */
export async function canaryDuring(cluster: Cluster, run: Run): Promise<number> {
  const { controlPlane, directory } = cluster;
  const event = {
    ...{ apiVersion: "events.k8s.io/v1", kind: "Event", metadata: { generateName: "canary-" } },
    ...{ eventTime: "2026-01-01T00:00:00.000000Z", reason: "Canary", action: "Binding" },
    ...{ type: "Normal", reportingController: "canary", reportingInstance: "canary" },
    regarding: { kind: "Pod", namespace: "default", name: "canary" },
  };
  const url = `${apiServerUrl}/apis/events.k8s.io/v1/namespaces/default/events?[1-99999]`;
  const user = `${directory}/pki/system-kube-scheduler`;
  const identity = `--cacert ${directory}/pki/ca.crt --cert ${user}.crt --key ${user}.key`;
  const flags = `--silent --rate 20/s --output /dev/null --header content-type:application/json ${identity}`;
  // Lines to stdout would be buffered.
  const shown = ["--write-out", "%{stderr}%{http_code} %{time_total}\n"];
  const curl = ["curl", ...flags.split(" "), ...shown, "--data", JSON.stringify(event), url];
  const target = `--target=${controlPlane.host.pid}`;
  const canary = execa("nsenter", [target, "-n", ...curl], {
    reject: false,
    stripFinalNewline: false,
  });
  await run();
  canary.kill();
  // The last line is empty, or cut when curl ends: it writes each in pieces.
  const lines = (await canary).stderr.split("\n").slice(0, -1);
  const answers = lines.map((line) => line.split(" "));
  const failed = answers.find(([status]) => status !== "201");
  if (failed !== undefined) throw new Error(`the canary got ${failed.join(" ")}`);
  const sorted = answers.map(([, seconds]) => 1000 * Number(seconds)).sort((a, b) => a - b);
  return Math.round(sorted[Math.ceil(0.99 * sorted.length) - 1] ?? Number.NaN);
}
