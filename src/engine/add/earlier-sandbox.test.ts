import { expect, test } from "vitest";
import { type EngineLab, netns, sandbox } from "#engine/testing/engine-lab.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";

const newNetns = "/run/netns/new";
const byProcess = "/proc/4711/ns/net";
const dels = ["bridge DEL net1", "ptp DEL eth0"];

const at = (path: string) => ({ ...web, env: { CNI_NETNS: path, PLEXUS_NETNS: "ok" } });

/** A process of the node has the ID now. */
function useAgain({ kernel }: EngineLab): void {
  kernel.addNamespace(byProcess);
  kernel.addLink(byProcess, "eth0");
  kernel.setMac(byProcess, "eth0", "02:00:00:00:00:99");
}

/** The new namespace has an interface of the name of its second one. */
function haveSecond({ kernel }: EngineLab): void {
  kernel.removeNamespace(netns);
  kernel.addLink(newNetns, "net1");
}

/** The shim may open no other namespace. */
function cannotOpen(lab: EngineLab): void {
  lab.kernel.failToOpen.add(netns);
}

test.each<{
  what: string;
  earlier?: string;
  present?: string;
  change?: (lab: EngineLab) => void;
}>([
  { what: "after a reboot", change: (lab) => Object.assign(lab, { bootId: "next" }) },
  { what: "in the same boot" },
  { what: "whose path has a new namespace", present: netns },
  { what: "of a process whose ID is used again", earlier: byProcess, change: useAgain },
  { what: "whose record the power took", change: ({ records }) => records.cutOff(sandbox) },
])(
  "add() detaches an earlier sandbox $what, for which podman and nerdctl send no DEL",
  async ({ earlier = netns, present = newNetns, change }) => {
    const lab = podLab("a");
    lab.kernel.addNamespace(earlier);
    expect(await lab.add(at(earlier))).toMatchObject({ exitCode: 0 });
    lab.plugins.calls.length = 0;
    lab.kernel.removeNamespace(earlier);
    lab.kernel.addNamespace(present);
    change?.(lab);
    expect(await lab.add(at(present))).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.log()).toEqual([...dels, "ptp ADD eth0", "bridge ADD net1"]);
    const ofDels = lab.plugins.calls.slice(0, dels.length);
    expect(ofDels.map((call) => call.netns)).toEqual(["", ""]);
    expect(lab.records.keys).toEqual(["c1@eth0"]);
  },
);

test.each<{
  what: string;
  code: number;
  earlier?: string;
  present?: string;
  change?: (lab: EngineLab) => void;
}>([
  { what: "in its namespace", code: 103 },
  { what: "whose process runs", code: 103, earlier: byProcess, present: newNetns },
  {
    what: "of which only the last interface is left",
    code: 103,
    change: ({ kernel }) => kernel.removeLink(netns, "eth0"),
  },
  { what: "with another boot ID", code: 103, change: (lab) => Object.assign(lab, { bootId: "x" }) },
  { what: "beside the new namespace", code: 103, present: newNetns },
  { what: "if one interface is in the new one", code: 103, present: newNetns, change: haveSecond },
  { what: "in a namespace that cannot be opened", code: 5, present: newNetns, change: cannotOpen },
  {
    what: "with a record that is damaged otherwise",
    code: 6,
    present: newNetns,
    change: ({ records }) => records.damage(sandbox, "both"),
  },
  {
    what: "although the power took its record",
    code: 6,
    change: ({ records }) => records.cutOff(sandbox),
  },
])("add() leaves an earlier sandbox alone $what", async (scene) => {
  const { code, earlier = netns, present = netns, change } = scene;
  const lab = podLab("a");
  lab.kernel.addNamespace(earlier);
  expect(await lab.add(at(earlier))).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  if (present !== netns) lab.kernel.addNamespace(present);
  change?.(lab);
  expect((await lab.add(at(present))).json).toMatchObject({ code });
  expect([lab.plugins.log(), lab.records.keys]).toEqual([[], ["c1@eth0"]]);
});
