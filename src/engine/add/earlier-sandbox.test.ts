import { expect, test } from "vitest";
import { type EngineLab, netns, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";

const newNetns = "/run/netns/new";
const byProcess = "/proc/4711/ns/net";
/** Of a link to the namespace of a process, as people make it for Docker's containers. */
const byLink = "/run/netns/web";
const allDels = ["bridge DEL net1", "ptp DEL eth0"];

function at(path: string, process = "100-net:[1]") {
  const ofProcess = [byProcess, byLink].includes(path) && { PLEXUS_NETNS_PROCESS: process };
  return { ...web, env: { CNI_NETNS: path, PLEXUS_NETNS: "ok", ...ofProcess } };
}

/** A process of the node has the ID now. */
function useAgain({ kernel }: EngineLab, path = byProcess): void {
  kernel.addNamespace(path);
  kernel.addLink(path, "eth0");
  kernel.setMac(path, "eth0", "02:00:00:00:00:99");
}

/** Another container has it. */
async function useAgainByContainer(lab: EngineLab): Promise<void> {
  lab.kernel.addNamespace(byProcess);
  const call = at(byProcess, "200-net:[1]");
  await lab.add({ ...call, env: { ...call.env, CNI_CONTAINERID: "c2" } });
  lab.plugins.calls.length = 0;
}

/** Plugins tell no MAC address. */
function withoutMac({ plugins }: EngineLab): void {
  for (const type of ["ptp", "bridge"])
    plugins.script(`${type} ADD`, (call) => {
      plugins.work(call);
      return exited(0, interfaceResult(call, "10.0.0.1/24", ""));
    });
}

/** The new namespace has an interface of the name of its second one. */
function haveSecond({ kernel }: EngineLab): void {
  kernel.removeNamespace(netns);
  kernel.addLink(newNetns, "net1");
}

/** The file at which its namespace was mounted is left. */
function leaveFile({ kernel }: EngineLab): void {
  kernel.hideNamespace(netns);
}

/** So it is on a node whose /run is on a disk. */
function rebootWithFile(lab: EngineLab): void {
  leaveFile(lab);
  lab.bootId = "next";
  lab.stepClock(60_000);
}

/** The shim may open no other namespace. */
function cannotOpen(lab: EngineLab): void {
  lab.kernel.failToOpen.add(netns);
}

test.each<{
  what: string;
  earlier?: string;
  present?: string;
  prepare?: (lab: EngineLab) => void;
  change?: (lab: EngineLab) => void | Promise<void>;
  dels?: string[];
}>([
  { what: "after a reboot", change: (lab) => Object.assign(lab, { bootId: "next" }) },
  { what: "in the same boot" },
  { what: "whose path has a new namespace", present: netns },
  { what: "after a reboot that left the file at its path", change: rebootWithFile },
  { what: "of a process whose ID is used again", earlier: byProcess, change: useAgain },
  { what: "behind a link", earlier: byLink, change: (lab) => useAgain(lab, byLink) },
  {
    what: "without known address, whose process ID another container has",
    ...{ earlier: byProcess, prepare: withoutMac, change: useAgainByContainer },
  },
  {
    what: "whose record the power took",
    change: ({ records }) => records.cutOff(sandbox),
    dels: ["ptp DEL eth0"],
  },
])(
  "add() detaches an earlier sandbox $what, for which nerdctl sends no DEL",
  async ({ earlier = netns, present = newNetns, prepare, change, dels = allDels }) => {
    const lab = podLab("a");
    prepare?.(lab);
    lab.kernel.addNamespace(earlier);
    expect(await lab.add(at(earlier))).toMatchObject({ exitCode: 0 });
    lab.plugins.calls.length = 0;
    lab.kernel.removeNamespace(earlier);
    lab.kernel.addNamespace(present);
    await change?.(lab);
    expect(await lab.add(at(present))).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.log()).toEqual([...dels, "ptp ADD eth0", "bridge ADD net1"]);
    const ofDels = lab.plugins.calls.slice(0, dels.length);
    expect(ofDels.map((call) => call.netns)).toEqual(dels.map(() => ""));
    expect(lab.records.keys).toContain("c1@eth0");
  },
);

test.each<{
  what: string;
  code: number;
  earlier?: string;
  present?: string;
  prepare?: (lab: EngineLab) => void;
  change?: (lab: EngineLab) => void;
}>([
  { what: "in its namespace", code: 103 },
  { what: "whose process runs", code: 103, earlier: byProcess, present: newNetns },
  {
    what: "whose process runs, without known address",
    ...{ code: 103, earlier: byProcess, present: newNetns, prepare: withoutMac },
  },
  {
    what: "of which only the last interface is left",
    code: 103,
    change: ({ kernel }) => kernel.removeLink(netns, "eth0"),
  },
  {
    what: "whose process has only its last interface",
    ...{ code: 103, earlier: byProcess, present: newNetns },
    change: ({ kernel }) => kernel.removeLink(byProcess, "eth0"),
  },
  { what: "with another boot ID", code: 103, change: (lab) => Object.assign(lab, { bootId: "x" }) },
  { what: "beside the new namespace", code: 103, present: newNetns },
  { what: "if one interface is in the new one", code: 103, present: newNetns, change: haveSecond },
  { what: "if a file is at its path", code: 103, present: newNetns, change: leaveFile },
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
  const { code, earlier = netns, present = netns, prepare, change } = scene;
  const lab = podLab("a");
  prepare?.(lab);
  lab.kernel.addNamespace(earlier);
  expect(await lab.add(at(earlier))).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  if (present !== netns) lab.kernel.addNamespace(present);
  change?.(lab);
  expect((await lab.add(at(present))).json).toMatchObject({ code });
  expect([lab.plugins.log(), lab.records.keys]).toEqual([[], ["c1@eth0"]]);
});
