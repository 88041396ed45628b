import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startCluster } from "../cluster/kubernetes/cluster.ts";
import { run } from "../cluster/machine/run.ts";
import { replaceSection, wrapItem } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { type Agent, addedBy, canaryDuring, metricsOf, type Run, whileSlow } from "./api-server.ts";
import { aboveLimits, changes, costTable, type Measured, names } from "./costs.ts";
import type { Counts, Order } from "./hollow-nodes.ts";
import { prepareMultus } from "./multus.ts";
import { objectsOf, servicesOf, statusOf } from "./objects.ts";

/** `--write` updates docs/operations/large-clusters.md. */
const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "250" },
    pods: { type: "string", default: "8" },
    write: { type: "boolean", default: false },
  },
});
const nodes = Array.from({ length: Number(values.nodes) }, (_, n) => `hollow-${n}`);
const podsPerNode = Number(values.pods);
/** Of all definitions in a LIST, and what the control plane's own controllers LIST and watch. */
const [pages, otherLists] = [2, 5];
/** Nodes LIST at random within this time after a restart: 10 ms for each of at least 50. */
const spreadMs = 10 * Math.max(50, nodes.length);
const { requests, openWatches, definitions } = names;
const waits = "apiserver_flowcontrol_request_wait_duration_seconds";
const ofControllers = 'priority_level="workload-high"';
const facts: string[] = [];
type Around = (run: Run) => Promise<unknown>;

await using cluster = await startCluster({ nodes: 0 });
await createObjects();
const { host, kubeconfig } = cluster.controlPlane;
const program = [join(import.meta.dirname, "hollow-nodes.ts"), kubeconfig, cluster.directory];
// The API server gets the processors first: in a cluster, the nodes have others.
const near = [`--target=${host.pid}`, "-n", "nice", process.execPath, ...program];
using worker = spawn("nsenter", near, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
const ended = new AbortController();
worker.once("exit", () => ended.abort());
const all = [await measurePlexus()];
await place();
await restart();
// It refuses what waits for 15 s, and each of its stops takes 80 ms.
await attach("The API server is five times slower", (run) => whileSlow(cluster, run), true);
const least = await canaryDuring(cluster, () => ask("serial"));
fact(`One client writes statuses one after another: requests of kube-scheduler take ${least} ms.`);
await serve();
worker.kill();
const haveEnded = async () => (await metricsOf(cluster))(openWatches, definitions) <= otherLists;
await waitUntil("its watches have ended", haveEnded);
const few = nodes.slice(0, 10);
const multus = await prepareMultus(cluster, few, podsPerNode);
if (multus !== undefined) all.push(await measure("Multus", few.length, multus));
const text = `${costTable(all)}\n\n${facts.join("\n")}`;
process.stdout.write(`${text}\n`);
const page = join(repositoryRoot, "docs/operations/large-clusters.md");
if (values.write && process.exitCode === undefined) await replaceSection(page, "measured", text);

async function createObjects(): Promise<void> {
  await cluster.kubectl("apply", "--filename", join(repositoryRoot, "crds"));
  await cluster.kubectl("apply", "--kustomize", join(repositoryRoot, "deploy/base"));
  await cluster.kubectl("wait", "--for=condition=established", "crd", "--all");
  await create(objectsOf(nodes, podsPerNode));
  const scheduled = "--output=jsonpath={.status.currentNumberScheduled}";
  const count = ["get", "daemonset", "plexus", "--namespace=kube-system", scheduled];
  const all = `${nodes.length}`;
  await waitUntil("each node has plexusd", async () => all === (await cluster.kubectl(...count)));
}

async function create(items: readonly object[]): Promise<void> {
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
  await run(cluster.kubectlCommand("create", "--filename=-"), { input });
}

async function ask(order: Order): Promise<Counts> {
  worker.send(order);
  const [counts] = await once(worker, "message", { signal: ended.signal });
  return counts;
}

async function measurePlexus(): Promise<Measured> {
  const start = async (): Promise<void> => {
    const sum = await addedBy(cluster, () => ask("start"));
    const mib = Math.round(sum("process_resident_memory_bytes") / 2 ** 20);
    expect(mib <= 6 * nodes.length, `memory of the API server: ${mib} MiB`);
    fact(`${nodes.length} nodes start at once: the API server needs ${mib} MiB more memory.`);
  };
  const idle = await canaryDuring(cluster, () => sleep(10_000));
  const storm: Around = async (run) => {
    const busy = await canaryDuring(cluster, run);
    fact(`Requests of kube-scheduler: ${idle} ms (p99); while all pods are attached, ${busy} ms.`);
  };
  const all = { start, attach: () => attach("All pods are attached at once", storm) };
  const measured = await measure("Plexus", nodes.length, all);
  expect(aboveLimits(measured) === "", aboveLimits(measured));
  return measured;
}

async function measure(name: string, on: number, agent: Agent): Promise<Measured> {
  const pods = on * podsPerNode;
  const started = await addedBy(cluster, agent.start);
  const before = await countEvents();
  const attached = await addedBy(cluster, agent.attach);
  const events = await waitUntil("all events are written", async () => {
    const count = await countEvents();
    await sleep(1000);
    return count >= before + pods && count === (await countEvents()) && count - before;
  });
  const annotate = ["annotate", "--namespace=scale-0", "network-attachment-definitions/network-0"];
  const changed = await addedBy(cluster, async () => {
    for (let n = 0; n < changes; n++) await cluster.kubectl(...annotate, `${name}-${n}=changed`);
    await sleep(1000);
  });
  return { name, nodes: on, pods, started, attached, events, changed };
}

async function countEvents(): Promise<number> {
  const added = ["--all-namespaces", "--field-selector=reason=AddedInterface", "--output=name"];
  return (await cluster.kubectl("get", "events", ...added)).split("event/").length - 1;
}

/** Every pod gets a status: each is sent once, and again only if the API server refused it. */
async function attach(story: string, during: Around, isSlow = false): Promise<void> {
  const before = { ...(await ask("count")), time: performance.now() };
  const sum = await addedBy(cluster, () => during(() => ask("attach")));
  const seconds = Math.round((performance.now() - before.time) / 1000);
  const after = await ask("count");
  const [written, attempts] = [after.written - before.written, after.attempts - before.attempts];
  const refused = sum("apiserver_flowcontrol_rejected_requests_total", 'priority_level="plexus-');
  const late = sum(requests, names.pods, 'code="504"');
  const others = sum(`${waits}_count`, ofControllers);
  const waited = others - sum(`${waits}_bucket`, ofControllers, 'le="0.1"');
  const failures = `${refused} refused, ${late} answered too late`;
  const queued = `${waited} of ${others} requests of controllers wait for 0.1 s or longer`;
  fact(`${story}: ${written} statuses, ${attempts} PATCHes, ${failures}, ${seconds} s; ${queued}.`);
  const waited10s = after.waitedMs.filter((ms) => ms < 0).length;
  const longest = Math.max(...after.waitedMs) / 1000;
  fact(
    `Meanwhile an ADD waits at most ${longest.toFixed(1)} s for its status; ${waited10s} give up.`,
  );
  const isSparing = attempts <= 1.05 * (written + refused);
  expect(written === nodes.length * podsPerNode && isSparing, story);
  expect(late === 0 && (isSlow || (refused === 0 && waited <= others / 100)), story);
}

/** Each change of the networks that a node has is one PATCH of its Node. */
async function place(): Promise<void> {
  for (const file of ["rbac.yaml", "admission-policy.yaml"]) {
    const path = join(repositoryRoot, "deploy/components/network-placement", file);
    await cluster.kubectl("apply", "--filename", path);
  }
  const account = "--as=system:serviceaccount:kube-system:plexusd";
  const can = ["auth", "can-i", "patch", "nodes", "--subresource=status", account];
  await waitUntil("plexusd may patch Nodes", () => cluster.kubectl(...can));
  const patches = async (order: Order): Promise<number> => {
    const sum = await addedBy(cluster, () => ask(order));
    return sum(requests, 'resource="nodes"', 'subresource="status"', 'verb="PATCH"');
  };
  const counts = [await patches("place"), await patches("place"), await patches("unplace")];
  const [appear, idle, gone] = counts;
  fact(`200 networks appear on each Node: ${appear} PATCHes; idle: ${idle}; one is gone: ${gone}.`);
  expect(counts.join() === [nodes.length, 0, nodes.length].join(), "PATCHes of Nodes");
}

/** Each Service of a network gets one EndpointSlice, and a pod's change is one write. */
async function serve(): Promise<void> {
  const [services, pods] = [4 * nodes.length, 5];
  const rbac = join(repositoryRoot, "deploy/components/endpoints/rbac.yaml");
  await cluster.kubectl("apply", "--filename", rbac);
  await create(servicesOf(services, pods));
  const writes = async (during: Run): Promise<number> => {
    const sum = await addedBy(cluster, during);
    return ["APPLY", "DELETE"].reduce(
      (total, verb) => total + sum(requests, 'resource="endpointslices"', `verb="${verb}"`),
      0,
    );
  };
  const own = ["--all-namespaces", "--selector=endpointslice.kubernetes.io/managed-by=plexus.dev"];
  const slices = async (): Promise<string> =>
    cluster.kubectl("get", "endpointslices", ...own, "--output=jsonpath={.items[*].endpoints}");
  const begun = performance.now();
  const made = await writes(async () => {
    await ask("endpoints");
    const count = async () => (await slices()).split('"addresses"').length - 1;
    await waitUntil("each pod is an endpoint", async () => (await count()) === pods * services, {
      timeoutMs: 300_000,
    });
  });
  const seconds = Math.round((performance.now() - begun) / 1000);
  const idle = await writes(() => sleep(5000));
  const status = `k8s.v1.cni.cncf.io/network-status=${statusOf("scale-0", "10.9.9.9")}`;
  const annotate = ["annotate", "--overwrite", "--namespace=scale-0", "pod/service-0-0", status];
  const changed = await writes(async () => {
    await cluster.kubectl(...annotate);
    await waitUntil("the new address", async () => (await slices()).includes('"10.9.9.9"'));
  });
  fact(
    `${services} Services of networks with ${pods * services} pods: ${made} writes of EndpointSlices, ${seconds} s; idle: ${idle}; a pod gets another address: ${changed}.`,
  );
  expect([made, idle, changed].join() === [services, 0, 1].join(), "writes of EndpointSlices");
}

/** The only API server forgets all versions: each cache is LISTed once, at a random time. */
async function restart(): Promise<void> {
  const before = (await ask("count")).listedAt.length;
  await cluster.controlPlane.killApiServer();
  // A cache that knows the newest version of all need not LIST.
  await cluster.controlPlane.writeToEtcd("scale");
  await cluster.controlPlane.startApiServer();
  const listed = async (): Promise<number> => (await ask("count")).listedAt.length - before;
  const caches = 3 * nodes.length;
  await waitUntil("all LIST", async () => (await listed()) >= caches, { timeoutMs: 300_000 });
  const { listedAt, delaysMs } = await ask("count");
  const lists = listedAt.slice(before);
  const seconds = Math.round((Math.max(...lists) - Math.min(...lists)) / 1000);
  const served = (await metricsOf(cluster))(requests, definitions, names.list);
  fact(`The only API server restarts: ${lists.length} caches are LISTed, over ${seconds} s.`);
  expect(lists.length === caches, `restart: ${lists.length} caches are LISTed`);
  expect(served <= pages * nodes.length + otherLists, `restart: ${served} pages of definitions`);
  expect(Math.max(...delaysMs) > 0.8 * spreadMs, "restart: LISTs are not spread");
}

function expect(isTrue: boolean, story: string): void {
  if (isTrue) return;
  process.stderr.write(`FAILED scale: ${story}\n`);
  process.exitCode = 1;
}

function fact(sentence: string): void {
  process.stdout.write(`${sentence}\n`);
  facts.push(wrapItem(sentence));
}
