import { expect, test } from "vitest";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { nodeLists } from "./node-lists.ts";

/** A node with a pod on the networks `default-net` and `net-a`. */
async function attached(): Promise<EngineLab> {
  const lab = new EngineLab();
  lab.source.addNad("default/net-a", network("net-a", "macvlan"));
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "net-a" } });
  await lab.add({ pod: "default/web/uid-1" });
  return lab;
}

test("the interfaces of pods are listed", async () => {
  const { engine } = await attached();
  const lists = nodeLists({ networks: () => [], engine });
  const pod = { namespace: "default", pod: "web" };
  expect(await lists.plexus_attachment_info()).toEqual([
    { ...pod, interface: "eth0", network: "default-net" },
    { ...pod, interface: "net1", network: "default/net-a" },
  ]);
});

test("a leftover is not listed beside the pod's present interfaces", async () => {
  const lab = await attached();
  lab.plugins.script("macvlan DEL", failed(117, "parent busy"));
  await lab.del({ pod: "default/web/uid-1" });
  lab.source.addNad("default/net-b", network("net-b", "ptp"));
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "net-b" } });
  await lab.add({ pod: "default/web/uid-1", env: { CNI_CONTAINERID: "later" } });
  expect((await lab.records.list()).records).toHaveLength(2);
  const { engine } = lab;
  const lists = nodeLists({ networks: () => [], engine });
  expect((await lists.plexus_attachment_info()).map((each) => each.network)).toEqual([
    "default-net",
    "default/net-b",
  ]);
});

test("at most 1,000 interfaces are listed; networks are those of the placement", async () => {
  const lab = await attached();
  const [record] = await lab.engine.recordsInUse();
  const recordsInUse = async () => Array.from({ length: 501 }, () => record!);
  const networks = () => [{ network: "shop/lan", usable: false }];
  const lists = nodeLists({ networks, engine: { recordsInUse } });
  expect(await lists.plexus_attachment_info()).toHaveLength(1000);
  expect(await lists.plexus_networks()).toEqual([{ network: "shop/lan", usable: "false" }]);
});
