import { join } from "node:path";
import { expect } from "vitest";
import { bridge, chained } from "../../../support/networks.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import type { Cluster } from "../../kubernetes/cluster.ts";
import { run } from "../../machine/run.ts";
import type { PodObject } from "../target/objects.ts";

/** A network with a lease, a bandwidth limit and a port mapping. */
export const store = chained(
  bridge("store", 161),
  { type: "bandwidth", capabilities: { bandwidth: true } },
  { type: "portmap", backend: "nftables", capabilities: { portMappings: true } },
);

/** The ports of a pod on its node, of the primary network and of `store`. */
const ports = { first: [18081, 18082], second: [18083, 18084], own: [18085, 18086] } as const;

/** A pod that the move meets, or that starts on Plexus (`own`). */
export type PodName = keyof typeof ports;

/** Starts a web server on the primary network and on `store`, each with a port of the node. */
export async function startPod(
  cluster: Cluster,
  name: PodName,
  { withStore = true } = {},
): Promise<void> {
  const [primaryPort, storePort] = ports[name];
  const request = {
    name: "store",
    portMappings: [{ hostPort: storePort, containerPort: 80, protocol: "tcp" }],
    bandwidth: { ingressRate: 8_000_000, ingressBurst: 8_000_000 },
  };
  const annotations = withStore ? { "k8s.v1.cni.cncf.io/networks": JSON.stringify([request]) } : {};
  await cluster.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, annotations },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: "main",
          image: "busybox:1.37",
          command: ["sh", "-c", `echo ${name} >/tmp/index.html; exec httpd -f -h /tmp`],
          ports: [{ containerPort: 80, hostPort: primaryPort }],
        },
      ],
    },
  });
  await cluster.kubectl("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
}

/** Deletes it, and waits until it is gone. */
export async function deletePod(cluster: Cluster, name: PodName): Promise<void> {
  await cluster.kubectl("delete", "pod", name, "--timeout=240s");
}

/** Its interface, its port mappings and its bandwidth limit do what they did. */
export async function expectWorking(cluster: Cluster, name: PodName): Promise<void> {
  await cluster.kubectl("exec", name, "--", "ping", "-c1", "-W5", "-I", "net1", "10.161.0.1");
  const { podIP } = (await cluster.get<PodObject>("pod", name)).status;
  const links = await cluster.kubectl("exec", name, "--", "ip", "-4", "address", "show", "net1");
  const [, address = ""] = /inet ([\d.]+)\//.exec(links) ?? [];
  for (const port of ports[name]) {
    const node = await cluster.inNode(["hostname", "-I"]);
    const [host = ""] = node.split(" ");
    const get = `exec 3<>/dev/tcp/${host}/${port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`;
    expect(await cluster.inNode(["timeout", "10", "bash", "-c", get])).toContain(name);
  }
  expect(await cluster.inNode(["tc", "qdisc", "show"])).toMatch(/^qdisc tbf .*rate 8Mbit/m);
  const leases = await cluster.inNode(["sh", "-c", "cd /var/lib/cni/networks && find . -type f"]);
  expect(leases).toContain(`./store/${address}`);
  expect(leases).toContain(`./primary/${podIP}`);
}

/** `kubectl plexus explain` says that Multus attached it. */
export async function expectAttachedByMultus(cluster: Cluster, name: PodName): Promise<void> {
  const explain = [join(repositoryRoot, "deploy/kubectl-plexus"), "explain", name] as const;
  expect(await run(cluster.administratorCommand(...explain))).toMatch(
    /^default\/store +net1 .*attached by Multus$/m,
  );
}
