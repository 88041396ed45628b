import { expect, test } from "vitest";
import { netns, network } from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
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
    id: "H-9.1",
    what: "an element without interface is plugged again after a restart, and cannot be unplugged",
    start: ["a"],
    scenario: async (pod) => {
      expect(await pod.again()).toMatchObject({ state: "settled" });
      expect(pod.lab.plugins.log()).toEqual([]);
      await pod.edit("");
      expect(pod.lab.plugins.log()).toEqual(["bridge DEL net1"]);
    },
  },
  {
    id: "H-9.2",
    what: "another network under the same interface collides with the first",
    start: ["a@x1"],
    scenario: async (pod) => {
      expect(await pod.edit("b@x1")).toMatchObject({ state: "settled" });
      expect(pod.shown()).toEqual(["eth0 default-net", "x1 default/b"]);
    },
  },
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
    id: "H-9.4",
    what: "undoing a failed network removes a healthy interface of the same name",
    start: [
      "",
      {},
      { conf: { delegates: [network("default-net", "ptp"), network("extra", "vlan")] } },
    ],
    scenario: async (pod) => {
      pod.lab.plugins.script("macvlan ADD", failed(1, "no"));
      await pod.edit("b@net1");
      await pod.edit("b@net2");
      expect(pod.lab.plugins.log("DEL")).toEqual(["macvlan DEL net2"]);
      expect(pod.shown()).toEqual(["eth0 default-net", "net1 extra"]);
      expect(pod.lab.kernel.linkNames(netns)).toEqual(["eth0", "net1"]);
    },
  },
  {
    id: "H-9.5",
    what: "a network that cannot be unplugged takes plugged ones with it, and status shows them",
    start: ["a"],
    scenario: async (pod) => {
      pod.lab.plugins.script("bridge DEL", failed(1, "no"));
      await pod.edit("b");
      await pod.again();
      expect(pod.shown()).toEqual([...before, "net2 default/b"]);
      expect(pod.lab.kernel.linkNames(netns)).toEqual(["eth0", "net1", "net2"]);
      pod.lab.plugins.unscript("bridge DEL");
      await pod.again();
      expect(pod.shown()).toEqual(["eth0 default-net", "net2 default/b"]);
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
