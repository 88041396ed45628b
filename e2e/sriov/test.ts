import { test as plainTest } from "vitest";
import { FakeKubelet } from "#devices/testing/fake-kubelet.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { ptp } from "../support/networks.ts";
import { PlexusNode } from "../support/node/plexus-node.ts";

/** A node of the guest's own network, with an API server and a kubelet that are scripted. */
export const test = plainTest
  .extend("kubelet", async () => (await FakeKubelet.create()).start())
  .extend("api", async ({ task: _task }, { onCleanup }) => {
    const api = await FakeApiServer.start();
    onCleanup(() => api[Symbol.asyncDispose]());
    return api;
  })
  .extend("node", async ({ kubelet, api }, { onCleanup }) => {
    const node = await PlexusNode.create({ machineNetwork: true });
    onCleanup(() => node[Symbol.asyncDispose]());
    node.defaultNetwork = ptp("default", 30);
    const source = ["--kubeconfig", await api.kubeconfig(), "--node", "node-1"];
    await node.startDaemon(...source, "--kubelet-dir", kubelet.dir);
    return node;
  });
