import { expect, test } from "vitest";
import { failed } from "#engine/testing/fake-plugins.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

/** A pod whose swaps have failed twice, so that they pause. */
async function pausedSwaps(from: string, to: string): Promise<HotPlugLab> {
  const pod = await hotPlugLab(from, { d: ["vlan"] });
  for (const plugin of ["macvlan", "vlan"])
    pod.lab.plugins.script(`${plugin} ADD`, failed(7, "no such VLAN"));
  await pod.edit(to);
  await pod.again();
  pod.lab.plugins.calls.length = 0;
  return pod;
}

test("each swap of a pod pauses", async () => {
  const pod = await pausedSwaps("a@x1,c@x2", "b@x1,d@x2");
  expect(await pod.again()).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log()).toEqual([]);
});

test("a swap pauses although other elements change", async () => {
  const pod = await pausedSwaps("a@x1", "b@x1");
  await pod.edit("c@x2,b@x1");
  expect(pod.lab.plugins.log()).toEqual(["ipvlan ADD x2"]);
});

test.each([
  { when: "somebody refreshes its interface", act: (pod: HotPlugLab) => pod.again("x1") },
  {
    when: "its element changes",
    act: (pod: HotPlugLab) => pod.edit([{ name: "b", interface: "x1", "cni-args": { one: 1 } }]),
  },
  {
    when: "what it replaces does not work",
    act: async (pod: HotPlugLab) => {
      pod.lab.plugins.script("bridge DEL", failed(7, "no server answers"));
      await pod.edit("");
      pod.lab.plugins.unscript("bridge DEL");
      await pod.edit("b@x1");
    },
  },
])("a swap does not pause any more when $when", async ({ act }) => {
  const pod = await pausedSwaps("a@x1", "b@x1");
  await act(pod);
  expect(pod.lab.plugins.log("ADD")).toContain("macvlan ADD x1");
});
