import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  type Cluster,
  startCluster,
  waitForServiceAccount,
} from "../cluster/kubernetes/cluster.ts";
import { repositoryRoot } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { ApiServerMetrics, slowDown } from "./api-server.ts";
import { namespaces, type StatusCounts } from "./hollow-nodes.ts";
import type { Answer, Order } from "./worker.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "250" },
    pods: { type: "string", default: "8" },
  },
});
const nodes = Number(values.nodes);
const podsPerNode = Number(values.pods);
const processCount = 2;
/** Attempts for each status. */
const attemptsMax = 1.05;
/** Of the control plane's own controllers, for all collections together. */
const otherLists = 5;
const manifests = [
  "crds/network-attachment-definitions.yaml",
  ...["rbac", "admission-policy", "priority"].map((name) => `deploy/base/${name}.yaml`),
];

const problems: string[] = [];

await using cluster = await startCluster({ nodes: 0 });
for (const file of manifests)
  await cluster.apply(await readFile(join(repositoryRoot, file), "utf8"));
for (const namespace of namespaces) {
  await cluster.kubectl("create", "namespace", namespace);
  await waitForServiceAccount(cluster, namespace);
}
const workers = Array.from({ length: processCount }, () => startWorker(cluster));
try {
  await timed(`${nodes} nodes start`, () => Promise.all(workers.map(start)));
  await attach("all pods attach at once", 1);
  await restart();
  {
    await using _slow = slowDown(cluster, 5);
    await attach("the same with an API server that is five times slower", 2);
  }
  await Promise.all(workers.map((worker) => ask(worker, { order: "stop" })));
} finally {
  for (const worker of workers) worker.kill();
}
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

/** Starts a process in the API server's network namespace. */
function startWorker({ controlPlane }: Cluster): ChildProcess {
  const program = join(import.meta.dirname, "worker.ts");
  const command = [`--target=${controlPlane.host.pid}`, "-n", process.execPath, program];
  return spawn("nsenter", command, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
}

/** @throws Error when the worker fails */
async function ask(worker: ChildProcess, order: Order): Promise<StatusCounts | undefined> {
  worker.send(order);
  const ended = once(worker, "exit").then(() => [{ error: "a process of nodes has ended" }]);
  const [answer] = (await Promise.race([once(worker, "message"), ended])) as [Answer];
  if ("error" in answer) throw new Error(answer.error);
  return answer.counts;
}

function start(worker: ChildProcess, index: number): Promise<unknown> {
  const first = Math.floor((index * nodes) / processCount);
  const count = Math.floor(((index + 1) * nodes) / processCount) - first;
  const { directory, controlPlane } = cluster;
  const options = { kubeconfig: controlPlane.kubeconfig, directory, first, count, podsPerNode };
  return ask(worker, { order: "start", options });
}

/** Every pod gets a status: each is sent once, and none is refused or answered too late. */
async function attach(story: string, round: number): Promise<void> {
  const before = await ApiServerMetrics.read(cluster);
  const counts = await timed(story, () =>
    Promise.all(workers.map((worker) => ask(worker, { order: "attach", round }))),
  );
  const after = await ApiServerMetrics.read(cluster);
  const sum = (of: keyof StatusCounts): number =>
    counts.reduce((total, each) => total + (each?.[of] ?? 0), 0);
  const written = sum("written");
  const attempts = sum("attempts");
  const [refused, late] = [after.refused - before.refused, after.late - before.late];
  const others = { before: before.ofControllers, after: after.ofControllers };
  const all = others.after.all - others.before.all;
  const waited = others.after.waited - others.before.waited;
  say(`  ${written} statuses, ${attempts} PATCHes, ${refused} refused, ${late} too late`);
  say(`  ${waited} of ${all} requests of controllers waited for 0.1 s or longer`);
  expect(written === nodes * podsPerNode, `${story}: ${written} statuses`);
  expect(attempts <= attemptsMax * written, `${story}: ${attempts} PATCHes`);
  expect(refused === 0 && late === 0, `${story}: ${refused} refused, ${late} too late`);
}

/** The only API server forgets all versions: each cache is LISTed once. */
async function restart(): Promise<void> {
  const resource = 'resource="network-attachment-definitions"';
  await cluster.controlPlane.killApiServer();
  await timed("the API server is ready again", () => cluster.controlPlane.startApiServer());
  await timed("all nodes watch again", () =>
    waitUntil("all nodes watch", async () => {
      const metrics = await ApiServerMetrics.read(cluster);
      return metrics.sum("apiserver_longrunning_requests", resource, 'verb="WATCH"') >= nodes;
    }),
  );
  const metrics = await ApiServerMetrics.read(cluster);
  const lists = metrics.sum("apiserver_request_total", resource, 'verb="LIST"');
  say(`  ${lists} LISTs of definitions`);
  expect(lists <= nodes + otherLists, `restart: ${lists} LISTs`);
  expect(metrics.refused === 0, `restart: ${metrics.refused} requests refused`);
}

function expect(isTrue: boolean, problem: string): void {
  if (!isTrue) problems.push(problem);
}

async function timed<T>(story: string, run: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await run();
  say(`${story}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return result;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
