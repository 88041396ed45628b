import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, hostLocal, list } from "../../support/networks.ts";
import { explained } from "../../support/node/explain.ts";
import { nad } from "../../support/node/manifests.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

type Networks = string | readonly object[];

/** An edit that cannot take effect, and what an operator reads about it. */
interface Mistake {
  readonly title: string;
  readonly from: Networks;
  readonly to: Networks;
  readonly event: RegExp;
  readonly finding: string;
  readonly sentence: RegExp;
  /** The pod's networks after the attempt, beside the default one. */
  readonly keeps: readonly string[];
}

const asked = (address: string): object[] => [{ name: "pool", interface: "x1", ips: [address] }];

const mistakes: readonly Mistake[] = [
  {
    title: "a typo in the definition's plugin",
    ...{ from: "front", to: "front,mistyped", keeps: ["net1 front"] },
    event:
      /^InterfaceAddRejected: network default\/mistyped: failed to find plugin "brigde" .*; Plexus tries again/,
    finding: "PluginMissing",
    sentence: /^Could not plug default\/mistyped: .*"brigde".* Install the plugin .*; plexusd /,
  },
  {
    title: "a typo in the definition's name",
    ...{ from: "front,back", to: [{ name: "frotn", interface: "x1" }, { name: "back" }] },
    keeps: ["net1 front", "net2 back"],
    event:
      /^InterfaceAddRejected: network default\/frotn \(x1\): there is no .*; Plexus tries again/,
    finding: "NoNetworkFound",
    sentence:
      /^Could not plug default\/frotn \(x1\): there is no .* Create the definition, .*; plexusd /,
  },
  {
    title: "an annotation that is cut off",
    ...{ from: "front", to: '[{"name": "front"}, {"name"', keeps: ["net1 front"] },
    event: /^InterfaceAddRejected: .*not valid JSON.*; the pod keeps its networks until/,
    finding: "InvalidAnnotation",
    sentence:
      /Correct the annotation, and create .* without hot-plug; the pod keeps its networks until then\.$/,
  },
  {
    title: "an address that is out of range",
    ...{ from: asked("10.91.0.9/24"), to: asked("10.99.0.9/24"), keeps: [] },
    event: /^FailedAddingInterface: .*10\.99\.0\.9.*; Plexus tries again/,
    finding: "AddressOutsideRange",
    sentence:
      /^Could not plug default\/pool \(x1\): .* Request an address within the network's range/,
  },
  {
    title: "a device of a node without a kubelet",
    ...{ from: "front", to: "front,vf", keeps: ["net1 front"] },
    event: /^AddedInterface/,
    finding: "DevicesUnknown",
    sentence:
      /^Could not change the networks of the pod: cannot find out which devices .* Check that the kubelet runs/,
  },
  {
    title: "a mistake that only the plugin knows",
    ...{ from: "front", to: "front,vlan", keeps: ["net1 front"] },
    event:
      /^FailedAddingInterface: network default\/vlan \(net2\): .*VLAN ID 5000.*; Plexus tries again/,
    finding: "ValueOutOfRange",
    sentence: /^Could not plug default\/vlan \(net2\): .*VLAN ID 5000/,
  },
];

needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create();
    await host.startAgent();
    const device = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
    const definitions = [
      nad("mistyped", list("mistyped", { type: "brigde" })),
      nad("pool", bridge("pool", 91, { capabilities: { ips: true }, ipam: hostLocal(91) })),
      nad("vf", list("vf", { type: "bridge" }), { annotations: device }),
      nad("vlan", bridge("vlan", 92, { vlan: 5000 })),
    ];
    for (const each of definitions)
      host.api.put("network-attachment-definitions", each as JsonObject);
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  test.for(mistakes)(
    "events and plexusctl explain say what is wrong with $title, and what to do",
    async ({ title, from, to, event, finding, sentence, keeps }) => {
      const name = title.replaceAll(/\W+/g, "-");
      const pod = await host.pod(name, from);
      pod.edit(to);
      await waitUntil("the mistake is explained", async () => {
        const advice = await explained(host.node.socketPath, `default/${name}`);
        expect(advice).toMatchObject({ finding, sentence: expect.stringMatching(sentence) });
        expect(pod.events).toContainEqual(expect.stringMatching(event));
        return true;
      });
      await pod.becomes(...keeps);
      pod.edit("");
      await pod.becomes();
      await pod.sandbox.mustDel();
    },
  );

  test("plexusctl refresh attaches a lost interface again while another element is rejected", async () => {
    const pod = await host.pod("refreshed", "front");
    await pod.sandbox.run("ip", "link", "del", "net1");
    pod.edit("front,nope");
    await waitUntil("the edit is rejected", () => pod.events.join().includes("default/nope"));
    const where = ["--socket", host.node.socketPath, "default/refreshed", "net1"];
    await waitUntil("no other attempt runs", async () => {
      const command = [distPath("plexusctl.js"), "refresh", ...where];
      return (await execa(nodeBinary(), command, { reject: false })).exitCode === 0;
    });
    expect(Object.keys(await pod.sandbox.links())).toContain("net1");
    await pod.becomes("net1 front");
    await pod.sandbox.mustDel();
  });

  test("plexusctl explain says that an agent restarts, and the edit takes effect then", async () => {
    const pod = await host.pod("patient", "front");
    await host.stopAgent();
    pod.edit("front,back");
    await waitUntil("the restart is explained", async () => {
      const { sentence } = await explained(host.node.socketPath, "default/patient");
      return sentence.includes("plexus agent is restarting");
    });
    await host.startAgent();
    await pod.becomes("net1 front", "net2 back");
    await pod.sandbox.mustDel();
  });
});
