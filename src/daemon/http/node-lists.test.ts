import { expect, test, vi } from "vitest";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
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

test.each([
  [1, 1],
  [10, 2],
])("with attachmentInfo %i, %i interfaces of pods are listed", async (max, count) => {
  const { records } = await attached();
  const lists = nodeLists({ networks: () => [], records, attachmentInfo: () => max });
  const pod = { namespace: "default", pod: "web" };
  expect(await lists.plexus_attachment_info()).toEqual(
    [
      { ...pod, interface: "eth0", network: "default-net" },
      { ...pod, interface: "net1", network: "default/net-a" },
    ].slice(0, count),
  );
});

test("without attachmentInfo, no record is read; networks are those of the placement", async () => {
  const list = vi.fn();
  const networks = () => [{ network: "shop/lan", usable: false }];
  const lists = nodeLists({ networks, records: { list }, attachmentInfo: () => 0 });
  expect(await lists.plexus_attachment_info()).toEqual([]);
  expect(list).not.toHaveBeenCalled();
  expect(await lists.plexus_networks()).toEqual([{ network: "shop/lan", usable: "false" }]);
});
