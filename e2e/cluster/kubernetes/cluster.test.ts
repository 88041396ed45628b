// SPDX-License-Identifier: Apache-2.0

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile, readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { busyboxImage } from "../machine/images.ts";
import { run } from "../machine/run.ts";
import { addresses, controlPlaneBridge, nodeInterface } from "./addresses.ts";
import { type Cluster, startCluster } from "./cluster.ts";

/** A build of Kubernetes from source comes first where there is none in the cache. */
const coldBuildMs = 40 * 60_000;

const networkLinks = ["cni0", "node-1", controlPlaneBridge, nodeInterface];

interface Pod {
  readonly metadata: { readonly name: string };
  readonly status: { readonly podIP?: string };
}

function podSpec(extra: object = {}): object {
  const container = {
    name: "main",
    image: busyboxImage,
    command: ["sh", "-c", "echo started; exec sleep 3600"],
  };
  return {
    terminationGracePeriodSeconds: 0,
    dnsPolicy: "Default",
    containers: [container],
    ...extra,
  };
}

/**
 * What a cluster may have left on the machine outside of its hosts: everything with its name or its addresses.
 */
async function tracesOf(directory: string): Promise<string[]> {
  const name = basename(directory);
  const links = networkLinks.join("|");
  const listings: readonly (readonly [string, RegExp])[] = [
    [await readFile("/proc/self/mountinfo", "utf8"), new RegExp(name)],
    [(await readdir("/sys/fs/cgroup", { recursive: true })).join("\n"), new RegExp(name)],
    [(await readdir(dirname(directory))).join("\n"), new RegExp(name)],
    [await run(["ip", "-oneline", "link"]), new RegExp(`: (${links})[@:]`)],
    [await run(["ip", "route"]), new RegExp(`${addresses.podRange}|${addresses.node}`)],
    [await run(["nft", "list", "ruleset"]), new RegExp(addresses.apiService)],
  ];
  const files = ["/etc/cni/net.d/10-primary.conflist", "/var/lib/kubelet/kubeconfig"];
  return [
    ...listings.flatMap(([text, own]) => text.split("\n").filter((line) => own.test(line))),
    ...files.filter((path) => existsSync(path)),
  ];
}

/** The namespaces that a process is in, as the kernel names them. */
async function namespacesOf(pid: number | string): Promise<string[]> {
  const names = ["net", "mnt", "pid", "uts", "ipc"];
  return Promise.all(names.map((name) => readlink(`/proc/${pid}/ns/${name}`)));
}

/** The namespaces of these hosts. This process must not share any of them. */
async function ownNamespaces(pids: readonly number[]): Promise<ReadonlySet<string>> {
  const theirs = (await Promise.all(pids.map(namespacesOf))).flat();
  const ours = await namespacesOf("self");
  expect(theirs.filter((namespace) => ours.includes(namespace))).toEqual([]);
  return new Set(theirs);
}

/** The command lines of all processes in any of these namespaces. */
async function processesIn(namespaces: ReadonlySet<string>): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const theirs = await namespacesOf(pid).catch(() => []);
    if (theirs.some((namespace) => namespaces.has(namespace))) {
      found.push(await readFile(`/proc/${pid}/cmdline`, "utf8"));
    }
  }
  return found;
}

async function startPod(cluster: Cluster, name: string, spec: object = {}): Promise<Pod> {
  await cluster.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: podSpec(spec),
  });
  await cluster.kubectl("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=60s");
  return cluster.get<Pod>("pod", name);
}

describe("a cluster", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster();
  }, coldBuildMs);

  afterAll(async () => {
    await cluster?.stop();
  });

  test("has a node that is ready", async () => {
    const nodes = await cluster.kubectl("get", "nodes", "--no-headers");
    expect(nodes).toMatch(/^node-1 +Ready /);
  });

  test("gives a pod an address of the primary network", async () => {
    const pod = await startPod(cluster, "first");
    expect(pod.status.podIP).toMatch(/^10\.244\.0\.\d+$/);
    const shown = await cluster.kubectl("exec", "first", "--", "ip", "-4", "address");
    expect(shown).toContain(`inet ${pod.status.podIP}/24`);
  });

  test("serves a pod's logs", async () => {
    expect(await cluster.kubectl("logs", "first")).toBe("started");
  });

  test("rolls out a Deployment, whose pods reach each other", async () => {
    const labels = { app: "pair" };
    await cluster.apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "pair" },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: podSpec() },
      },
    });
    await cluster.kubectl("rollout", "status", "deployment/pair", "--timeout=60s");
    const { items } = await cluster.get<{ items: Pod[] }>("pods", "--selector=app=pair");
    const [one, other] = items;
    const ping = ["ping", "-c1", "-W2", other?.status.podIP ?? ""];
    await cluster.kubectl("exec", one?.metadata.name ?? "", "--", ...ping);
  });

  test.each([true, false])("lets a pod ask the API (hostNetwork: %s)", async (hostNetwork) => {
    const name = `asks-${hostNetwork}`;
    await startPod(cluster, name, { hostNetwork });
    const ask = `T=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)
      wget -qO- --no-check-certificate --header "Authorization: Bearer $T" \
        --post-data '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}' \
        --header 'Content-Type: application/json' \
        https://$KUBERNETES_SERVICE_HOST/apis/authentication.k8s.io/v1/selfsubjectreviews`;
    const { status } = JSON.parse(await cluster.kubectl("exec", name, "--", "sh", "-c", ask));
    expect(status.userInfo).toMatchObject({
      username: "system:serviceaccount:default:default",
      extra: { "authentication.kubernetes.io/node-name": ["node-1"] },
    });
  });

  test("keeps its pods over a restart of the kubelet and of the container runtime", async () => {
    const { status } = await cluster.get<Pod>("pod", "first");
    await cluster.node.stopKubelet();
    await cluster.node.stopRuntime("SIGKILL");
    await cluster.node.startRuntime();
    await cluster.node.startKubelet();
    const show = ["exec", "first", "--", "ip", "-4", "address"];
    const own = `inet ${status.podIP}/24`;
    await waitUntil("the kubelet knows the pod again", async () =>
      (await cluster.kubectl(...show)).includes(own),
    );
  });

  test("continues after its API server was unavailable", async () => {
    await cluster.controlPlane.stopApiServer();
    const { exitCode } = await cluster.tryKubectl("get", "nodes", "--request-timeout=2s");
    expect(exitCode).not.toBe(0);
    await cluster.controlPlane.startApiServer();
    await startPod(cluster, "after-outage");
  });

  test("starts its pods again after a reboot of the node", async () => {
    const sandboxesBefore = await cluster.inNode(["ls", "/run/netns"]);
    await cluster.rebootNode();
    const enter = ["exec", "first", "--", "true"];
    await waitUntil(
      "the first pod runs again",
      async () => (await cluster.tryKubectl(...enter)).exitCode === 0,
    );
    const sandboxes = await cluster.inNode(["ls", "/run/netns"]);
    expect(sandboxes).not.toContain(sandboxesBefore.split("\n")[0]);
    await startPod(cluster, "after-reboot");
  });

  test("shows on the machine itself by its directory and control groups only", async () => {
    const name = basename(cluster.directory);
    const traces = await tracesOf(cluster.directory);
    expect(traces.filter((trace) => !trace.includes(name))).toEqual([]);
  });

  test("leaves nothing on the machine when it is stopped", async () => {
    const { controlPlane, node } = cluster;
    const namespaces = await ownNamespaces([controlPlane.host.pid, node.host.pid]);
    expect((await processesIn(namespaces)).length).toBeGreaterThan(5);
    await cluster.stop();
    expect(await processesIn(namespaces)).toEqual([]);
    expect(await tracesOf(cluster.directory)).toEqual([]);
  });
});

test("a cluster leaves nothing on the machine when the process that started it is killed", async () => {
  const script = `
    import { startCluster } from ${JSON.stringify(join(import.meta.dirname, "cluster.ts"))};
    const { directory, controlPlane, node } = await startCluster();
    console.log(JSON.stringify({ directory, pids: [controlPlane.host.pid, node.host.pid] }));
    setInterval(() => undefined, 1_000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output] = await once(holder.stdout, "data");
  const { directory, pids } = JSON.parse(String(output));
  const namespaces = await ownNamespaces(pids);
  expect((await processesIn(namespaces)).length).toBeGreaterThan(5);
  holder.kill("SIGKILL");
  await waitUntil(
    "the processes of the cluster are gone",
    async () => (await processesIn(namespaces)).length === 0,
    { timeoutMs: 10_000 },
  );
  await waitUntil(
    "its directory and control groups are gone",
    async () => (await tracesOf(directory)).length === 0,
    { timeoutMs: 10_000 },
  );
});
