import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Cluster, startCluster } from "../../e2e/cluster/kubernetes/cluster.ts";
import { podImage, writePlexusImage } from "../../e2e/cluster/scenarios/target/images.ts";
import { installPlexus } from "../../e2e/cluster/scenarios/target/plexus.ts";
import { markdownTable } from "../../e2e/support/markdown.ts";
import { repositoryRoot } from "../../e2e/support/paths.ts";
import { summarize } from "../measure/statistics.ts";
import { cniMs, cpuMsOf } from "./accounting.ts";
import { Runtime, type SandboxPod } from "./cri.ts";
import { addHandlers, handlers, startEngines } from "./handlers.ts";

/**
 * Measures how long containerd takes to start and to stop a pod's sandbox, on the cluster of the end-to-end tests: with
 * its primary CNI alone, with an engine that does nothing, and with Plexus. Each has a runtime handler of containerd, so
 * that they take turns on one node. The kubelet is stopped meanwhile: this program calls containerd instead.
 */
const rounds = Number(process.env.BENCH_ROUNDS ?? 60);
const warmUp = 5;

type Name = keyof typeof handlers;
const names = Object.keys(handlers) as Name[];

/** Milliseconds of one sandbox; those of containerd's call of its CNI plugins apart. */
interface Times {
  readonly start: number;
  readonly startCni: number;
  readonly stop: number;
  readonly stopCni: number;
  /** CPU time of etcd, the API server and the controllers. */
  readonly controlPlane: number;
}

await using cluster = await startCluster();
addHandlers(cluster);
await cluster.rebootNode();
await cluster.node.loadImage(await writePlexusImage());
await installPlexus(cluster);
await startEngines(cluster);
await cluster.node.stopKubelet();
const results = await measure(cluster);
const text = report(results);
process.stdout.write(text);
mkdirSync(join(repositoryRoot, "dist/bench"), { recursive: true });
writeFileSync(join(repositoryRoot, "dist/bench/pods.md"), text);

async function measure(target: Cluster): Promise<Map<Name, Times[]>> {
  const { host, runtime: containerRuntime } = target.node;
  const runtime = new Runtime(`/proc/${host.pid}/root${containerRuntime.socket}`);
  const times = new Map(names.map((name) => [name, [] as Times[]]));
  for (let round = 0; round < warmUp + rounds; round++) {
    for (const turn of names.keys()) {
      const name = names[(round + turn) % names.length] as Name;
      const pod = await createPod(target, `pod-${turn}-${round}`);
      const seen = await startAndStop(runtime, pod, { target, handler: handlers[name] });
      if (round >= warmUp) times.get(name)?.push(seen);
    }
  }
  return times;
}

/** A pod of the node, which no kubelet starts. */
async function createPod(target: Cluster, name: string): Promise<SandboxPod> {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: {
      nodeName: target.nodeName,
      automountServiceAccountToken: false,
      containers: [{ name: "main", image: podImage }],
    },
  };
  await target.apply(pod);
  const { metadata } = await target.get<{ metadata: { uid: string } }>("pod", name);
  return {
    name,
    namespace: "default",
    uid: metadata.uid,
    cgroupParent: `/${basename(target.directory)}/${randomUUID()}`,
  };
}

async function startAndStop(
  runtime: Runtime,
  pod: SandboxPod,
  { target, handler }: { target: Cluster; handler: string },
): Promise<Times> {
  const { node, controlPlane } = target;
  const cniBefore = await cniMs(node);
  const cpuBefore = cpuMsOf(controlPlane.host);
  const started = performance.now();
  const id = await runtime.run(pod, handler);
  const running = performance.now();
  await runtime.stop(id);
  const stopped = performance.now();
  const cniAfter = await cniMs(node);
  const controlPlaneMs = cpuMsOf(controlPlane.host) - cpuBefore;
  await runtime.remove(id);
  if (cniAfter.stop <= cniBefore.stop)
    throw new Error("containerd has no metrics of its CNI calls");
  return {
    start: running - started,
    startCni: cniAfter.start - cniBefore.start,
    stop: stopped - running,
    stopCni: cniAfter.stop - cniBefore.stop,
    controlPlane: controlPlaneMs,
  };
}

function report(times: Map<Name, Times[]>): string {
  const row = (name: Name): string[] => {
    const all = times.get(name) ?? [];
    const of = (key: keyof Times) => summarize(all.map((each) => each[key]));
    const [start, stop] = [of("start"), of("stop")];
    const rest = (key: "start" | "stop"): number =>
      summarize(all.map((each) => each[key] - each[`${key}Cni`])).p50;
    const cells = [
      ...[start.p50, start.p90, of("startCni").p50, rest("start")],
      ...[stop.p50, stop.p90, of("stopCni").p50, rest("stop"), of("controlPlane").p50],
    ];
    return [`${name} (n = ${start.count})`, ...cells.map((each) => each.toFixed(1))];
  };
  const parts = ["p50", "p90", "in CNI", "elsewhere"];
  const head = ["start", "stop"].flatMap((what) => parts.map((part) => `${what} ${part}`));
  const columns = ["attached with", ...head, "CPU of the control plane"];
  return `${markdownTable(columns, names.map(row))}\n`;
}
