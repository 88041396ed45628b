import { expect, test } from "vitest";
import { HostGoneError } from "#engine/ports/host.ts";
import { EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { attachedPod } from "#engine/testing/pod-lab.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/* Sandboxes whose record and plan are lost: what is left are the pod's annotation and the definitions. */

const web = { pod: "default/web/uid-1" };

/** A pod in ptp on eth0, bridge on net1 and macvlan on data0. */
const attached = (): Promise<EngineLab> => attachedPod("a,b@data0");

const everything = ["macvlan DEL data0", "bridge DEL net1", "ptp DEL eth0"];

test.each(["lost", "damaged"])(
  "DEL with record and plan %s detaches by the annotation, with a warning and an event",
  async (state) => {
    const lab = await attached();
    if (state === "lost")
      for (const part of ["record", "plan"] as const) lab.records.lose(sandbox, part);
    else lab.records.damage(sandbox, "both");
    expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.log()).toEqual(everything);
    const message = expect.stringMatching(
      /lost: .* from default-net \(eth0\), default\/a \(net1\), default\/b \(data0\)/,
    );
    expect(lab.logger.at("warn")).toEqual([message]);
    expect(lab.events.recorded).toEqual([
      { pod: "default/web", type: "Warning", reason: "DetachedByAnnotation", message },
    ]);
    expect(lab.records.keys).toEqual([]);
  },
);

test("DEL with record and plan damaged detaches by the annotation even if the namespace is gone", async () => {
  const lab = await attached();
  lab.records.damage(sandbox, "both");
  lab.kernel.removeNamespace(netns);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
});

async function lost(): Promise<EngineLab> {
  const lab = await attached();
  for (const part of ["record", "plan"] as const) lab.records.lose(sandbox, part);
  return lab;
}

test("DEL by the annotation skips networks whose interface or definition is gone", async () => {
  const lab = await lost();
  lab.kernel.removeLink(netns, "net1");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["macvlan DEL data0", "ptp DEL eth0"]);
  const other = await lost();
  other.source.removeNad("default/b");
  expect(await other.del(web)).toMatchObject({ exitCode: 0 });
  expect(other.plugins.log()).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect(other.logger.at("warn")[0]).toContain("cannot be resolved any more");
});

test("DEL by the annotation ends with the call", async () => {
  const lab = await lost();
  lab.source.getNad = () => Promise.reject(new HostGoneError());
  await expect(lab.del(web)).rejects.toThrow(HostGoneError);
  expect(lab.plugins.log()).toEqual([]);
});

test("DEL by the annotation detaches a network whose definition exceeds the limits of an ADD", async () => {
  const lab = await lost();
  lab.source.addNad("default/b", { ...network("net-b", "macvlan"), filler: "x".repeat(140_000) });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
});

test.each<[string, (lab: EngineLab) => void]>([
  ["the pod is gone", (lab) => lab.source.removePod("default/web")],
  [
    "the API is unavailable",
    (lab) => {
      lab.source.failure = new Error("API server away");
    },
  ],
  ["the namespace is gone", (lab) => lab.kernel.removeNamespace(netns)],
  [
    "its interfaces cannot be listed",
    ({ kernel }) => {
      kernel.refuse = () => 13;
    },
  ],
  ["the pod requests no networks", (lab) => void lab.source.addPod({ name: "web" })],
])("DEL without record and plan runs only the default network if %s", async (_, change) => {
  const lab = await lost();
  change(lab);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
  expect(lab.events.reasons).toEqual([]);
});

test("DEL after a refused ADD looks up nothing", async () => {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "gone" } });
  expect(await lab.add(web)).toMatchObject({ exitCode: 1 });
  lab.source.asked.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.source.asked).toEqual([]);
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
});

test("a second DEL of a detached sandbox runs only the default network, even if a link remains", async () => {
  const lab = await attached();
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  lab.kernel.addLink(netns, "net1", []);
  lab.source.addNad("default/a", network("never-attached", "vlan"));
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
  expect(lab.events.reasons).toEqual([]);
});

test("DEL by the annotation ends if the shim disconnects before it lists the interfaces", async () => {
  const lab = await lost();
  const host = lab.host();
  host.goesAt = 0;
  await expect(lab.del({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.source.asked).toEqual([]);
});
