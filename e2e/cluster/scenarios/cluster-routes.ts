import { once } from "node:events";
import { execa } from "execa";
import { describe, expect, onTestFinished, test } from "vitest";
import { nodeBinary } from "../../support/paths.ts";
import { addresses } from "../kubernetes/addresses.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { podImage } from "./target/images.ts";
import { home } from "./target/objects.ts";
import { kubectlPlexus, readConfig, restartPlexus, writeConfig } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, nodeAddress, ownCluster, skipGiven } from "./target/target.ts";

/** Of the network `red`. */
const gateway = "10.161.0.1";
/** A Service and what its name server says of every name. */
const [nameService, answer] = ["10.96.0.10", "203.0.113.53"];

/** A pod whose default route is on another network, and the cluster. */
export function clusterRouteScenarios(scene: () => Scene): void {
  describe("a pod with the default route on another network", () => {
    test("loses the cluster, and explain says so; with clusterRoutes it keeps Services, DNS, its node and pods of other nodes", async (context) => {
      skipGiven(context);
      const { target } = scene();
      const cluster = ownCluster(scene());
      const before = await readConfig(target);
      onTestFinished(async () => {
        await writeConfig(target, before);
        await restartPlexus(target);
      });
      await using _names = await serveNames(cluster);
      const lookUp = (pod: string) => scene().exec(pod, "nslookup", "web.example", nameService);
      const wayOf = (pod: string, to: string) => scene().exec(pod, "ip", "route", "get", to);
      const networks = [{ name: "red", "default-route": [gateway] }];

      await scene().startPod("lost", { networks });
      expect(await wayOf("lost", nameService)).toContain(`via ${gateway} dev net1`);
      await expect(lookUp("lost")).rejects.toThrow();
      const explained = await kubectlPlexus(target, ["explain", `${home}/lost`]);
      expect(explained.stdout).toContain(
        `But the pod reaches ${addresses.serviceRange} of the cluster by ${home}/red (net1)`,
      );

      await writeConfig(target, `${before}\nclusterRoutes: [10.244.0.0/16]\n`);
      await restartPlexus(target);
      await scene().startPod("kept", { networks });
      // plexusd is not on that node, so that its DaemonSet is complete only without it.
      await using joined = await joinedNode(cluster);
      const other = await podOn(cluster, joined.name);
      for (const to of [nameService, other, await nodeAddress(target)])
        expect(await wayOf("kept", to)).toContain("via 10.244.0.1 dev eth0");
      expect(await wayOf("kept", "192.0.2.1")).toContain(`via ${gateway} dev net1`);
      expect(await lookUp("kept")).toContain(answer);
      await scene().exec("kept", "sh", "-c", `nc -w 5 ${addresses.apiService} 443 </dev/null`);
      for (const to of [other, await nodeAddress(target)])
        expect(await scene().exec("kept", "ping", "-c1", "-W5", to)).toContain(
          "1 packets received",
        );
      const { stdout } = await kubectlPlexus(target, ["explain", `${home}/kept`]);
      expect(stdout).not.toContain("of the cluster");
    });
  });
}

/** A node that leaves again, after its pods. */
async function joinedNode(cluster: Cluster): Promise<AsyncDisposable & { readonly name: string }> {
  const node = await cluster.addNode();
  return {
    name: node.name,
    async [Symbol.asyncDispose]() {
      const here = [`--namespace=${home}`, `--field-selector=spec.nodeName=${node.name}`];
      await cluster.kubectl("delete", "pods", ...here);
      await cluster.removeNode(node);
    },
  };
}

/** Starts a pod on a node. @returns its address */
async function podOn(cluster: Cluster, nodeName: string): Promise<string> {
  const containers = [{ name: "main", image: podImage, command: ["sleep", "86400"] }];
  const spec = { nodeName, terminationGracePeriodSeconds: 1, containers };
  const metadata = { name: "other", namespace: home };
  await cluster.apply({ apiVersion: "v1", kind: "Pod", metadata, spec });
  const path = ["--output=jsonpath={.status.podIP}", `--namespace=${home}`];
  return eventually("the pod of the other node has an address", async () => {
    const address = await cluster.kubectl("get", "pod", "other", ...path);
    return address.startsWith("10.244.") && address;
  });
}

/** A name server beside the control plane, and the Service that leads to it, as kube-proxy would make it. */
async function serveNames(cluster: Cluster): Promise<AsyncDisposable> {
  const enter = [`--target=${cluster.controlPlane.host.pid}`, "-n"];
  const server = execa("nsenter", [...enter, nodeBinary(), "-e", nameServer], {
    reject: false,
    buffer: false,
  });
  await once(server.stdout, "data");
  const rules = `table ip names {
  chain prerouting {
    type nat hook prerouting priority -100
    ip daddr ${nameService} udp dport 53 dnat to ${addresses.controlPlane}:53
  }
}
`;
  await cluster.inNode(["nft", "--file", "-"], { input: rules });
  return {
    async [Symbol.asyncDispose]() {
      server.kill("SIGKILL");
      await server;
      await cluster.inNode(["nft", "delete", "table", "ip", "names"]);
    },
  };
}

/** Answers questions for an IPv4 address (type 1), and has nothing of other types. */
const nameServer = `
const socket = require("node:dgram").createSocket("udp4");
socket.on("message", (query, { port, address }) => {
  let end = 12;
  while (query[end] > 0) end += query[end] + 1;
  const question = query.subarray(12, end + 5);
  const isIpv4 = query.readUInt16BE(end + 1) === 1;
  const header = Buffer.from([query[0], query[1], 0x85, 0x80, 0, 1, 0, isIpv4 ? 1 : 0, 0, 0, 0, 0]);
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ${answer.split(".").join()}]);
  socket.send(Buffer.concat([header, question, ...(isIpv4 ? [record] : [])]), port, address);
});
socket.bind(53, () => console.log("ready"));
`;
