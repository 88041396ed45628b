import { randomUUID } from "node:crypto";
import { appendFileSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Cluster, startCluster } from "../../e2e/cluster/kubernetes/cluster.ts";
import { podImage, writePlexusImage } from "../../e2e/cluster/scenarios/target/images.ts";
import { installPlexus } from "../../e2e/cluster/scenarios/target/plexus.ts";
import { repositoryRoot } from "../../e2e/support/paths.ts";
import { summarize } from "../measure/statistics.ts";
import { table } from "../report/tables.ts";
import { Runtime, type SandboxPod } from "./cri.ts";

/**
 * Measures how long containerd takes to start and to stop a pod's sandbox, on the cluster of the end-to-end tests: with
 * its primary CNI alone, and with Plexus. A second runtime handler of containerd has the primary CNI's configuration
 * alone, so that both take turns on one node. The kubelet is stopped meanwhile: this program calls containerd instead.
 */
const rounds = Number(process.env.BENCH_ROUNDS ?? 60);
const warmUp = 5;

/** The runtime handlers, by what their pods are attached with; containerd's default one has Plexus. */
const handlers = { "primary CNI": "bare", Plexus: "" } as const;
type Name = keyof typeof handlers;
const names = Object.keys(handlers) as Name[];

/** Milliseconds of each round. */
type Times = Record<"start" | "stop", number[]>;

await using cluster = await startCluster();
await addBareHandler(cluster);
await cluster.node.loadImage(await writePlexusImage());
await installPlexus(cluster);
await cluster.node.stopKubelet();
const results = await measure(cluster);
const text = report(results);
process.stdout.write(text);
mkdirSync(join(repositoryRoot, "dist/bench"), { recursive: true });
writeFileSync(join(repositoryRoot, "dist/bench/pods.md"), text);

async function addBareHandler(target: Cluster): Promise<void> {
  const { node } = target;
  const bare = join(node.root, "etc/cni/bare.d");
  mkdirSync(bare);
  copyFileSync(join(node.cniConfDir, "10-primary.conflist"), join(bare, "10-primary.conflist"));
  const runtimes = "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes";
  const handler = `
[${runtimes}.bare]
  runtime_type = "io.containerd.runc.v2"
  cni_conf_dir = "/etc/cni/bare.d"
`;
  appendFileSync(join(node.root, "containerd.toml"), handler);
  await target.rebootNode();
}

async function measure(target: Cluster): Promise<Record<Name, Times>> {
  const { host, runtimeSocket } = target.node;
  using runtime = await Runtime.open(`/proc/${host.pid}/root${runtimeSocket}`);
  const times: Record<Name, Times> = {
    "primary CNI": { start: [], stop: [] },
    Plexus: { start: [], stop: [] },
  };
  for (let round = 0; round < warmUp + rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const pod = await createPod(target, `${handlers[name] || "plexus"}-${round}`);
      const { start, stop } = await startAndStop(runtime, pod, handlers[name]);
      if (round < warmUp) continue;
      times[name].start.push(start);
      times[name].stop.push(stop);
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
  handler: string,
): Promise<{ start: number; stop: number }> {
  const started = performance.now();
  const id = await runtime.run(pod, handler);
  const running = performance.now();
  await runtime.stop(id);
  const stopped = performance.now();
  await runtime.remove(id);
  return { start: running - started, stop: stopped - running };
}

function report(times: Record<Name, Times>): string {
  const row = (name: Name): string[] => {
    const [start, stop] = [summarize(times[name].start), summarize(times[name].stop)];
    const cells = [start.p50, start.p90, stop.p50, stop.p90].map((each) => each.toFixed(1));
    return [`${name} (n = ${start.count})`, ...cells];
  };
  const head = ["attached with", "start p50", "p90", "stop p50", "p90"];
  return `${table(head, names.map(row)).join("\n")}\n`;
}
