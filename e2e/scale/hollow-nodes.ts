import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defaultCallConfig } from "#daemon/config/call-config.ts";
import { NetworkPlacement, type NodeMark } from "#daemon/pods/network-placement.ts";
import { EndpointsController } from "#endpoints/controller.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { type KubeAdapter, startKube } from "#kube/adapter.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { requestNodeToken } from "#kube/node/node.ts";
import { waitUntil } from "../support/wait.ts";

/** Nodes without a kubelet, but with the API adapter of plexusd. An answer to an order is what has happened. */
export type Order = "start" | "attach" | "serial" | "count" | "place" | "unplace" | "endpoints";

type Pod = Readonly<{ metadata: ObjectName & { uid: string }; spec: { nodeName: string } }>;

const { apiTimeoutMs } = defaultCallConfig;
const account = { namespace: "kube-system", name: "plexusd" };
const timeoutMs = 300_000;
const [, , kubeconfig = "", directory = ""] = process.argv;
const kubeconfigOf = (node: string): string => join(directory, `${node}.kubeconfig`);
const admin = new ApiClient(await kubeconfigCredentials(kubeconfig));
/** Attempts to write statuses, and how many of them the API server has accepted. */
const writes = { attempts: 0, written: 0 };
/** When each LIST was complete, and how long each cache waited after its version had expired. */
const lists = { listedAt: [] as number[], delaysMs: [] as number[] };
/** How long each ADD would have waited for its status; -1: for as long as it may. */
const waits = { waitedMs: [] as number[] };
/** What has happened. */
export type Counts = typeof writes & typeof lists & typeof waits;
const adapters = new Map<string, KubeAdapter>();
const placements: NetworkPlacement[] = [];
let networks: readonly NetworkOnNode[] = [];
let pods: readonly Pod[] = [];
let round = 0;

const orders: Readonly<Record<Order, () => unknown>> = {
  start,
  attach,
  serial,
  count: () => undefined,
  place: () => place(200),
  unplace: () => place(199),
  endpoints: () => {
    const options = {
      client: admin,
      namespace: "kube-system",
      identity: "scale",
      logger: noLogger,
    };
    void new EndpointsController(options).run(new AbortController().signal);
  },
};
process.on("message", async (order: Order) => {
  await orders[order]();
  process.send?.({ ...writes, ...lists, ...waits });
});
process.on("disconnect", () => process.exit());

/** Starts the adapters for all pods of the DaemonSet at once. Resolves when all have LISTed. */
async function start(): Promise<void> {
  const list: unknown = await admin.json({ path: apiPaths.pods, timeoutMs });
  const { items } = list as { readonly items: readonly Pod[] };
  const isOwn = ({ metadata }: Pod): boolean => metadata.namespace === account.namespace;
  const [plexusd, others] = [items.filter(isOwn), items.filter((pod) => !isOwn(pod))];
  pods = others;
  for (const { spec } of plexusd) await writeKubeconfig(spec.nodeName);
  await Promise.all(plexusd.map(startNode));
  await listed(2 * plexusd.length);
  for (const { ownDaemonSet } of adapters.values()) await ownDaemonSet?.find();
  await listed(3 * plexusd.length);
}

async function listed(caches: number): Promise<void> {
  await waitUntil("caches are LISTed", () => lists.listedAt.length >= caches, { timeoutMs });
}

/** All pods get a status, for which their ADDs wait, and an event at once. Resolves when all are written. */
async function attach(): Promise<void> {
  const address = `10.0.0.${++round}`;
  const status = [{ name: "pods", interface: "eth0", ips: [address], default: true }];
  // Pods of plexusd have no record: the watch may deliver one again meanwhile.
  const wanted = async ({ namespace }: ObjectName): Promise<string | undefined> =>
    namespace === account.namespace ? undefined : JSON.stringify(status);
  for (const { publisher } of adapters.values()) publisher.follow(wanted);
  const { signal } = new AbortController();
  waits.waitedMs.length = 0;
  const attached = { type: "Normal", reason: "AddedInterface", message: `Add ${address}` } as const;
  const attachPod = async ({ metadata, spec }: Pod): Promise<void> => {
    const { events, publisher } = adapters.get(spec.nodeName) as KubeAdapter;
    const pod = { ...metadata, annotations: {} };
    const startedAt = performance.now();
    events.record(metadata, attached);
    const isShown = async () => (await publisher.shown(pod, signal)) === undefined;
    waits.waitedMs.push((await isShown()) ? performance.now() - startedAt : -1);
    await waitUntil("its status is written", isShown, { timeoutMs });
  };
  await Promise.all(pods.map(attachPod));
}

/** The administrator writes annotations for ten seconds, one after another. */
async function serial(): Promise<void> {
  const until = Date.now() + 10_000;
  for (let n = 0; Date.now() < until; n++) {
    const { metadata } = pods[n % pods.length] as Pod;
    const body = { metadata: { annotations: { serial: `${n}` } } };
    const path = `${apiPaths.pod(metadata)}/status`;
    const contentType = "application/merge-patch+json";
    await admin.write({ method: "PATCH", path, contentType, body, timeoutMs });
  }
}

/** Of 200 networks, so many can be used on every node. What cannot is gone after two runs. */
async function place(count: number): Promise<void> {
  networks = Array.from({ length: 200 }, (_, n) => ({
    ...{ network: `scale-0/network-${n}`, usable: n < count },
    label: `networks.plexus.dev/scale-0.network-${n}`,
  }));
  for (let run = 0; run < 2; run++) await Promise.all(placements.map((each) => each.run()));
}

async function startNode({ metadata, spec: { nodeName } }: Pod): Promise<void> {
  const info = (fields: { reason?: string; delayMs?: number }, message: string): void => {
    if (message === "API objects listed") lists.listedAt.push(Date.now());
    if (fields.reason === "expired") lists.delaysMs.push(fields.delayMs ?? 0);
  };
  const statusWrite = (result: string): void => {
    writes.attempts += 1;
    if (result === "written") writes.written += 1;
  };
  const kube = await startKube({
    ...{ kubeconfig: kubeconfigOf(nodeName), nodeName, ownPod: metadata },
    ...{ apiTimeoutMs, logger: { ...noLogger, info }, metrics: { statusWrite } },
  });
  adapters.set(nodeName, kube);
  const marks = (): readonly NodeMark[] => ["labels", "resources"];
  const options = { marks, networks: async () => networks, readiness: () => [] };
  placements.push(new NetworkPlacement({ ...options, node: kube.marks }));
}

/** The administrator's with a token of plexusd's account instead. */
async function writeKubeconfig(nodeName: string): Promise<void> {
  const token = await requestNodeToken(admin, { account, nodeName, seconds: 3600 });
  const config = JSON.parse(await readFile(kubeconfig, "utf8"));
  const users = [{ ...config.users[0], user: { token } }];
  await writeFile(kubeconfigOf(nodeName), JSON.stringify({ ...config, users }), { mode: 0o600 });
}
