import { copyFile, writeFile } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { cnitoolBinary } from "../conformance/tools.ts";
import { waitUntil } from "../support/wait.ts";
import { CrioNode } from "./node.ts";

/** The page's list of another runtime: libcni detaches what its cache has of a list before a GC. */
const list = {
  cniVersion: "1.0.0",
  name: "other-plexus",
  disableGC: true,
  plugins: [
    {
      type: "plexus",
      delegates: [
        {
          cniVersion: "1.0.0",
          name: "front",
          type: "bridge",
          bridge: "front0",
          ipam: { type: "host-local", ranges: [[{ subnet: "10.88.1.0/24" }]] },
        },
      ],
    },
  ],
};

test("a container of another runtime's list keeps its networks when CRI-O starts", async () => {
  const node = await CrioNode.create();
  onTestFinished(() => node[Symbol.asyncDispose]());
  await copyFile(await cnitoolBinary(), node.at("opt/cni/bin/cnitool"));
  await node.startPlexusd();
  const pod = await node.runPod("web");
  await writeFile(node.at("etc/cni/net.d/50-other-plexus.conflist"), JSON.stringify(list));
  await node.host.run(["ip", "netns", "add", "container"]);
  const env = { CNI_PATH: "/opt/cni/bin", NETCONFPATH: "/etc/cni/net.d" };
  const cnitool: [string, ...string[]] = [
    "/opt/cni/bin/cnitool",
    "add",
    "other-plexus",
    "/run/netns/container",
  ];
  await node.host.run(cnitool, { env });
  const state = (): Promise<string> =>
    node.host.run(["sh", "-c", "ip -n container -br -4 addr; ls /var/lib/cni/networks/front"]);
  const before = await state();
  expect(before).toContain("10.88.1.2");
  await node.restartRuntime();
  await waitUntil("CRI-O collects garbage", () => node.calls().includes("GC"));
  expect(await state()).toEqual(before);
  await pod.remove();
});
