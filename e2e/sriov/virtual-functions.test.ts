import { expect } from "vitest";
import { listedPod } from "#devices/testing/fake-kubelet.ts";
import { claimObject, draPod, sliceObject } from "#devices/testing/resource-objects.ts";
import { podObject } from "#kube/testing/objects.ts";
import { fileKinds, hostStateKinds } from "../support/host-state.ts";
import { hostLocal, list } from "../support/networks.ts";
import { nad } from "../support/node/manifests.ts";
import type { TestPod } from "../support/node/test-pod.ts";
import { distPath, nodeBinary } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { test as guestTest } from "./test.ts";
import {
  addressOf,
  makeVirtualFunctions,
  type VirtualFunction,
  virtualFunctions,
} from "./virtual-functions.ts";

const resourceName = "vendor.example/vf";

const test = guestTest
  /** Makes a pod that was allocated these functions. */
  .extend("startPod", ({ node, kubelet, api }) => {
    return async (name: string, networks: string, functions: readonly VirtualFunction[]) => {
      const ids = functions.map(({ pciAddress }) => pciAddress);
      kubelet.pods.push(listedPod(name, { main: { [resourceName]: ids } }));
      const annotations = { "k8s.v1.cni.cncf.io/networks": networks };
      api.put("pods", podObject(name, { annotations }));
      const pod = await node.pod(name, { uid: `uid-of-${name}` });
      return pod;
    };
  });

test.beforeAll(() => makeVirtualFunctions(4));

test.beforeEach(({ api }) => {
  const annotations = { "k8s.v1.cni.cncf.io/resourceName": resourceName };
  for (const [name, net] of [
    ["fast", 31],
    ["faster", 32],
  ] as const) {
    const config = list(name, { type: "host-device", ipam: hostLocal(net) });
    api.put("network-attachment-definitions", nad(name, config, { annotations }));
  }
});

/** The hardware address of a pod's interface. */
async function podAddress(pod: TestPod, ifName: string): Promise<string | undefined> {
  return (await pod.links())[ifName]?.address;
}

test("virtual functions that the kubelet allocated are moved into two pods that reach each other, and back with their names", async ({
  kubelet,
  node,
  startPod,
}) => {
  const functions = await virtualFunctions();
  const [first, second, third] = functions as [VirtualFunction, VirtualFunction, VirtualFunction];
  const addresses = await Promise.all([first, second, third].map(addressOf));
  const a = await startPod("two", "fast,faster", [second, first]);
  const b = await startPod("one", "fast", [third]);
  const before = await node.hostState();

  await a.mustAdd();
  await b.mustAdd();
  // In the order of the IDs, not of the kubelet's entries.
  expect(await podAddress(a, "net1")).toBe(addresses[0]);
  expect(await podAddress(a, "net2")).toBe(addresses[1]);
  expect(await podAddress(b, "net1")).toBe(addresses[2]);
  expect(await virtualFunctions()).toEqual(functions.slice(3));
  const [address = ""] = await b.addresses("net1");
  await a.ping(address.split("/")[0] ?? "", "net1");

  // As the kubelet does with pods that end. DEL needs only the record.
  kubelet.pods = [];
  await a.mustDel();
  await b.mustDel();
  expect(await node.changesSince(before)).toEqual([]);
  expect(await virtualFunctions()).toEqual(functions);
});

test("a virtual function that the annotation names is moved into the pod, and back without plexusd", async ({
  node,
  startPod,
}) => {
  const functions = await virtualFunctions();
  const [first, second] = functions as [VirtualFunction, VirtualFunction];
  const addresses = await Promise.all([first, second].map(addressOf));
  const networks = [{ name: "fast", deviceID: second.pciAddress }, { name: "faster" }];
  const pod = await startPod("chooser", JSON.stringify(networks), [first, second]);
  const before = await node.hostState();

  await pod.mustAdd();
  expect(await podAddress(pod, "net1")).toBe(addresses[1]);
  expect(await podAddress(pod, "net2")).toBe(addresses[0]);

  await node.stopDaemon("SIGKILL");
  await pod.mustDel();
  const kinds = hostStateKinds.filter((kind) => kind !== "processes");
  expect(await node.changesSince(before, kinds)).toEqual([]);
  expect(await virtualFunctions()).toEqual(functions);
});

test("one element moves each allocated virtual function into the pod by PCI address, and back", async ({
  api,
  node,
  startPod,
}) => {
  const functions = await virtualFunctions();
  const [first, second, third] = functions as [VirtualFunction, VirtualFunction, VirtualFunction];
  const addresses = await Promise.all([first, second, third].map(addressOf));
  const config = list("rails", { type: "host-device", ipam: hostLocal(33) });
  const annotations = {
    "k8s.v1.cni.cncf.io/resourceName": resourceName,
    "plexus.dev/each-device": "true",
  };
  api.put("network-attachment-definitions", nad("rails", config, { annotations }));
  const pod = await startPod("eight", "rails", [third, first, second]);
  const before = await node.hostState();

  await pod.mustAdd();
  for (const [index, address] of addresses.entries())
    expect(await podAddress(pod, `net${index + 1}`)).toBe(address);
  expect(await virtualFunctions()).toEqual(functions.slice(3));

  await pod.mustDel();
  expect(await node.changesSince(before)).toEqual([]);
  expect(await virtualFunctions()).toEqual(functions);
});

test("a virtual function of a resource claim is moved into the pod, and its record names the claim", async ({
  kubelet,
  api,
  node,
}) => {
  const [, second] = (await virtualFunctions()) as [VirtualFunction, VirtualFunction];
  const address = await addressOf(second);
  const attributes = {
    "k8s.cni.cncf.io/deviceID": { string: second.pciAddress },
    "k8s.cni.cncf.io/resourceName": { string: resourceName },
  };
  const slice = sliceObject({ devices: [{ name: "vf-1", attributes }] });
  api.put("resourceslices", { ...slice, spec: { ...(slice.spec as object), nodeName: "node-1" } });
  const allocated = [{ device: "vf-1", request: "left" }];
  api.put("resourceclaims", claimObject("mine", allocated, { reservedFor: "uid-of-claiming" }));
  kubelet.pods.push(listedPod("claiming", { main: {} }));
  const annotations = { "k8s.v1.cni.cncf.io/networks": "fast" };
  const claims = draPod({ spec: [{ name: "nic", resourceClaimName: "mine" }] });
  const spec = { ...(claims.spec as object), nodeName: "node-1" };
  api.put("pods", { ...podObject("claiming", { annotations }), ...claims, spec });
  const pod = await node.pod("claiming", { uid: "uid-of-claiming" });

  await pod.mustAdd();
  expect(await podAddress(pod, "net1")).toBe(address);
  const command = ["records", "--output", "json", "--state-dir", node.stateDir];
  const shown = await node.lab.run(nodeBinary(), distPath("plexusctl.js"), ...command);
  const device = { id: second.pciAddress, resourceName, source: "ResourceClaim mine" };
  expect(JSON.parse(shown)).toMatchObject([{ attachments: [{}, { ifName: "net1", device }] }]);
  await pod.mustDel();
  expect((await virtualFunctions())[1]).toEqual(second);
});

test("a virtual function whose pod's namespace is deleted before DEL is on the machine and usable again", async ({
  node,
  startPod,
}) => {
  const [, , , last] = (await virtualFunctions()) as VirtualFunction[];
  if (last === undefined) throw new Error("there are no four functions");
  const address = await addressOf(last);
  const gone = await startPod("gone", "fast", [last]);
  const before = await node.hostState();
  await gone.mustAdd();
  await node.lab.deleteNetns(gone.netns);
  const isBack = async (): Promise<boolean> => (await virtualFunctions()).length === 4;
  await waitUntil("the kernel has moved the function", isBack);
  await gone.mustDel({ netns: "" });

  expect(await node.changesSince(before, fileKinds)).toEqual([]);
  // The kernel keeps the name that it had in the pod, and host-device has no namespace to find it in.
  expect((await virtualFunctions()).at(-1)).toEqual({ ...last, ifName: "net1" });
  const next = await startPod("next", "fast", [last]);
  await next.mustAdd();
  expect(await podAddress(next, "net1")).toBe(address);
  await next.mustDel();
  expect((await virtualFunctions()).at(-1)).toEqual({ ...last, ifName: "net1" });
});
