import { expect, test } from "vitest";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { web } from "#engine/testing/pod-lab.ts";

function labOf(...types: string[]): EngineLab {
  const lab = new EngineLab({ nextPlugins: async () => types });
  lab.source.addPod({ name: "web" });
  return lab;
}

test("add() attaches nothing, with an event, if a plugin after Plexus's is missing", async () => {
  const lab = labOf("istio-cni", "linkerd-cni");
  lab.plugins.setLookup("linkerd-cni", { outcome: "missing", message: "" });
  expect((await lab.add(web)).json).toMatchObject({
    code: 11,
    msg: expect.stringMatching(/linkerd-cni, which .* is not installed in \[\/opt\/cni\/bin\]/),
    details: expect.stringContaining("reason=NextPluginMissing"),
  });
  expect(lab.plugins.log()).toEqual([]);
  expect(lab.records.writes).toEqual([]);
  expect(lab.events.reasons).toEqual(["NextPluginMissing"]);
});

test("add() attaches a pod if the plugins after Plexus's are there, or refused", async () => {
  const lab = labOf("istio-cni", "linkerd-cni");
  lab.plugins.setLookup("istio-cni", { outcome: "refused", message: "" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});
