import { expect, test } from "vitest";
import { netns, network } from "#engine/testing/engine-lab.ts";
import { exited, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const before = ["eth0 default-net", "net1 default/a"];

interface Defect {
  readonly id: string;
  /** What another controller gets wrong. */
  readonly what: string;
  readonly start: Parameters<typeof hotPlugLab>;
  readonly scenario: (pod: HotPlugLab) => Promise<void>;
}

const defects: readonly Defect[] = [
  {
    id: "H-9.3",
    what: "status entries are lost when one edit plugs and unplugs, or when a status is not written",
    start: ["a,b"],
    scenario: async (pod) => {
      await pod.edit("b,c");
      expect(pod.shown()).toEqual(["eth0 default-net", "net2 default/b", "net1 default/c"]);
      pod.lab.publisher.failure = { message: "no answer", isRejected: false };
      await pod.edit("c");
      pod.lab.publisher.failure = undefined;
      await pod.edit("c,a");
      expect(pod.shown()).toEqual(["eth0 default-net", "net1 default/c", "net2 default/a"]);
    },
  },
  {
    id: "H-9.6",
    what: "networks of the configuration, and further interfaces of a plugin, look like removals",
    start: [
      "a",
      {},
      { conf: { delegates: [network("default-net", "ptp"), network("extra", "vlan")] } },
    ],
    scenario: async (pod) => {
      pod.lab.plugins.script("macvlan ADD", (call) => {
        const result = interfaceResult(call, "10.1.0.1/24");
        const links = result.interfaces as object[];
        pod.lab.kernel.addLink(netns, call.ifName);
        return exited(0, { ...result, interfaces: [...links, { name: "sub0", sandbox: netns }] });
      });
      await pod.edit("a,b");
      expect(pod.shown()).toContain("sub0 default/b");
      expect(await pod.again()).toMatchObject({ state: "settled" });
      expect(pod.lab.plugins.log("DEL")).toEqual([]);
      expect(await pod.recorded()).toContain("net1 extra");
    },
  },
  {
    id: "H-9.7",
    what: "a missing status makes every element an addition, and a write replaces other annotations",
    start: ["a"],
    scenario: async (pod) => {
      pod.lab.publisher.published.clear();
      expect(await pod.again()).toMatchObject({ state: "settled" });
      expect(pod.lab.plugins.log()).toEqual([]);
      await pod.edit("a,b");
      const written = pod.lab.publisher.published.get("default/web");
      expect(Object.keys(written ?? {})).toEqual([networkStatusAnnotation]);
      expect(pod.shown()).toEqual([...before, "net2 default/b"]);
    },
  },
  {
    id: "H-9.8",
    what: "an edited or deleted definition leaves the attachment, or detaches another one",
    start: ["a,b"],
    scenario: async (pod) => {
      const recorded = (await pod.attachments()).map(({ conf }) => conf.name);
      pod.lab.source.addNad("default/a", network("edited", "vlan"));
      pod.lab.source.removeNad("default/b");
      expect(await pod.again()).toMatchObject({ state: "settled" });
      expect(pod.lab.plugins.log()).toEqual([]);
      await pod.edit("");
      expect(pod.lab.plugins.calls.map(({ type, conf }) => [type, conf.name])).toEqual([
        ["macvlan", recorded[2]],
        ["bridge", recorded[1]],
      ]);
    },
  },
];

test.each(defects)("hotPlug() avoids $id: $what", async ({ start, scenario }) => {
  await scenario(await hotPlugLab(...start));
});
