// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type HostState, type HostStateKind, readHostState } from "../../../support/host-state.ts";
import { bridge, chained } from "../../../support/networks.ts";
import { nad } from "../../../support/node/manifests.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { type Cluster, startCluster, waitForServiceAccount } from "../../kubernetes/cluster.ts";
import { run } from "../../machine/run.ts";
import { writePlexusImage } from "../target/images.ts";
import { bridges, networkStatus, type PodObject } from "../target/objects.ts";
import { eventually, isCrio, isGiven } from "../target/target.ts";
import { type Installer, MigrationPage } from "./migration-page.ts";
import { installMultus, loadMultusImages, type MultusForm } from "./multus.ts";

/** A network with a lease, a bandwidth limit and a port mapping. */
const store = chained(
  bridge("store", 161),
  { type: "bandwidth", capabilities: { bandwidth: true } },
  { type: "portmap", backend: "nftables", capabilities: { portMappings: true } },
);

const kinds: readonly HostStateKind[] = [
  ...(["attachment records", "locks", "address leases", "cached results"] as const),
  ...(["other plugin files", "netns", "links", "qdiscs", "nftables rules"] as const),
  ...(["iptables rules", "port mappings"] as const),
];

/** The ports of a pod on its node, of the primary network and of `store`. */
const ports = { first: [18081, 18082], second: [18083, 18084], own: [18085, 18086] } as const;

type PodName = keyof typeof ports;

/**
 * Which pods are deleted on Plexus, and which after the way back. Thick Multus's first DEL of a primary network whose
 * file has address ranges fails, as it keeps the file without them.
 */
const forms = {
  thin: { leaving: ["first", "own"], staying: ["second"] },
  thick: { leaving: ["first", "own", "second"], staying: [] },
} as const satisfies Record<MultusForm, Record<"leaving" | "staying", readonly PodName[]>>;

/** The first two have every form and every installer; `make e2e-migration` runs all. */
const ways: readonly { readonly form: MultusForm; readonly installer: Installer }[] = [
  { form: "thin", installer: "kubectl" },
  { form: "thick", installer: "helm" },
  { form: "thin", installer: "helm" },
  { form: "thick", installer: "kubectl" },
];
const isWhole = process.env.PLEXUS_E2E_MIGRATION === "all";

describe.skipIf(isGiven || isCrio)("docs/user/migration.md", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster();
    await cluster.node.loadImage(await writePlexusImage());
    await loadMultusImages(cluster);
    await waitForServiceAccount(cluster, "default");
  });

  afterAll(async () => cluster?.[Symbol.asyncDispose]());

  test.each(isWhole ? ways : ways.slice(0, 2))(
    "running pods of $form Multus stay attached while the node moves to Plexus with $installer, and back; nothing is left of them",
    async ({ form, installer }) => {
      const { leaving, staying } = forms[form];
      // The first port mapping makes tables that stay.
      await startPod(cluster, "first", { withStore: false });
      await deletePod(cluster, "first");
      const before = await nodeState(cluster);
      await using page = await MigrationPage.open(cluster, installer);
      await installMultus(cluster, form);
      await cluster.apply(nad("store", store));
      for (const name of ["first", "second"] as const) {
        await startPod(cluster, name);
        await expectWorking(cluster, name);
      }

      await page.follow("there");
      for (const name of ["first", "second"] as const) await expectWorking(cluster, name);
      const explain = [join(repositoryRoot, "deploy/kubectl-plexus"), "explain", "first"] as const;
      expect(await run(cluster.administratorCommand(...explain))).toMatch(
        /^default\/store +net1 .*attached by Multus$/m,
      );
      await startPod(cluster, "own");
      await eventually("its network-status is published", async () => {
        return networkStatus(await cluster.get<PodObject>("pod", "own")).length === 2;
      });
      await expectWorking(cluster, "own");
      for (const name of leaving) await deletePod(cluster, name);

      await page.follow("back");
      for (const name of staying) {
        await expectWorking(cluster, name);
        await deletePod(cluster, name);
      }
      await page.follow("at-the-end");
      await cluster.kubectl("delete", "network-attachment-definition", "store");
      await eventually("the node has what it had before", async () => {
        expect(await nodeState(cluster)).toEqual(before);
        return true;
      });
      expect(await cluster.inNode(["ls", "/etc/cni/net.d"])).toBe("10-primary.conflist");
    },
  );
});

async function nodeState(cluster: Cluster): Promise<HostState> {
  const inNode = (command: [string, ...string[]]): Promise<string> => cluster.inNode(command);
  const state = await readHostState({ run: inNode, stateDir: "/var/lib/plexus" }, { kinds });
  return { ...state, links: state.links?.filter((name) => !bridges.includes(name)) ?? [] };
}

/** Starts a web server on the primary network and on `store`, each with a port of the node. */
async function startPod(cluster: Cluster, name: PodName, { withStore = true } = {}): Promise<void> {
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

async function deletePod(cluster: Cluster, name: PodName): Promise<void> {
  await cluster.kubectl("delete", "pod", name, "--timeout=240s");
}

/** Its interface, its port mappings and its bandwidth limit do what they did. */
async function expectWorking(cluster: Cluster, name: PodName): Promise<void> {
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
