// SPDX-License-Identifier: Apache-2.0

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile, readlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "./cluster.ts";
import { busyboxImage } from "./images.ts";
import { run } from "./run.ts";
import { waitFor } from "./wait.ts";

/** A build of Kubernetes from source comes first where there is none in the cache. */
const coldBuildMs = 40 * 60_000;

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

/** What the machine itself has, which a cluster must leave alone. */
async function machineState(): Promise<object> {
  const paths = [
    "/etc/cni",
    "/etc/plexus",
    "/opt/cni",
    "/run/netns",
    "/run/containerd",
    "/run/plexus",
  ];
  const state = ["cni", "containerd", "kubelet", "plexus"].map((name) => `/var/lib/${name}`);
  return {
    mounts: await readFile("/proc/self/mountinfo", "utf8"),
    links: await run(["ip", "-brief", "link"]),
    routes: await run(["ip", "route"]),
    rules: await run(["nft", "list", "ruleset"]),
    forwarding: await readFile("/proc/sys/net/ipv4/ip_forward", "utf8"),
    paths: [...paths, ...state].filter((path) => existsSync(path)),
    cgroups: (await readdir("/sys/fs/cgroup", { recursive: true })).filter((name) =>
      name.includes("plexus-e2e"),
    ),
    temporary: (await readdir(tmpdir())).filter((name) => name.startsWith("plexus-e2e-")),
  };
}

/** The namespaces that a process is in, as the kernel names them. */
async function namespacesOf(pid: number | string): Promise<string[]> {
  const names = ["net", "mnt", "pid", "uts", "ipc"];
  return Promise.all(names.map((name) => readlink(`/proc/${pid}/ns/${name}`)));
}

/** The namespaces of these hosts, none of which may be this process's. */
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
  let before: object;
  let cluster: Cluster;

  beforeAll(async () => {
    before = await machineState();
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
    const addresses = await cluster.kubectl("exec", "first", "--", "ip", "-4", "address");
    expect(addresses).toContain(`inet ${pod.status.podIP}/24`);
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

  test("keeps its pods over a restart of the kubelet and of containerd", async () => {
    const { status } = await cluster.get<Pod>("pod", "first");
    await cluster.node.stopKubelet();
    await cluster.node.stopContainerd("SIGKILL");
    await cluster.node.startContainerd();
    await cluster.node.startKubelet();
    const show = ["exec", "first", "--", "ip", "-4", "address"];
    await waitFor(
      async () => (await cluster.kubectl(...show)).includes(`inet ${status.podIP}/24`),
      {
        what: "the kubelet knows the pod again",
      },
    );
  });

  test("goes on after its API server was away", async () => {
    await cluster.controlPlane.stopApiServer();
    const { exitCode } = await cluster.tryKubectl("get", "nodes", "--request-timeout=2s");
    expect(exitCode).not.toBe(0);
    await cluster.controlPlane.startApiServer();
    await startPod(cluster, "after-outage");
  });

  test("starts its pods again after a reboot of the node", async () => {
    const sandboxesBefore = await cluster.inNode(["ls", "/run/netns"]);
    await cluster.rebootNode();
    await waitFor(async () => (await cluster.kubectl("logs", "first")) === "started", {
      what: "the first pod runs again",
    });
    const sandboxes = await cluster.inNode(["ls", "/run/netns"]);
    expect(sandboxes).not.toContain(sandboxesBefore.split("\n")[0]);
    await startPod(cluster, "after-reboot");
  });

  test("leaves nothing on the machine when it is stopped", async () => {
    const { controlPlane, node } = cluster;
    const namespaces = await ownNamespaces([controlPlane.host.pid, node.host.pid]);
    expect((await processesIn(namespaces)).length).toBeGreaterThan(5);
    await cluster.stop();
    expect(await processesIn(namespaces)).toEqual([]);
    expect(await machineState()).toEqual(before);
  });
});

test("a cluster leaves nothing on the machine when the process that started it is killed", async () => {
  const before = await machineState();
  const script = `
    import { startCluster } from ${JSON.stringify(join(import.meta.dirname, "cluster.ts"))};
    const { controlPlane, node } = await startCluster();
    console.log(JSON.stringify([controlPlane.host.pid, node.host.pid]));
    setInterval(() => undefined, 1_000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output] = await once(holder.stdout, "data");
  const namespaces = await ownNamespaces(JSON.parse(String(output)));
  expect((await processesIn(namespaces)).length).toBeGreaterThan(5);
  holder.kill("SIGKILL");
  await waitFor(async () => (await processesIn(namespaces)).length === 0, {
    what: "the processes of the cluster are gone",
    timeoutMs: 10_000,
  });
  await waitFor(async () => isDeepStrictEqual(await machineState(), before), {
    what: "the machine is as before",
    timeoutMs: 10_000,
  });
});
