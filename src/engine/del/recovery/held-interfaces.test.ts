import { expect, test } from "vitest";
import { type EngineLab, sandbox } from "#engine/testing/engine-lab.ts";
import { attachedPod, web } from "#engine/testing/pod-lab.ts";

/* A DEL without a record in a namespace where other records have interfaces. */

/** A pod in ptp on eth0 and bridge on net1. */
const attached = (): Promise<EngineLab> => attachedPod("a", { a: ["bridge"] });

test.each<["the same" | "another", record: "usable" | "damaged" | "damaged with its plan"]>([
  ["the same", "usable"],
  ["the same", "damaged"],
  ["the same", "damaged with its plan"],
  ["another", "usable"],
])("DEL without a record leaves those of %s container, %s", async (container, state) => {
  const lab = await attached();
  if (state !== "usable") lab.records.damage(sandbox, state === "damaged" ? "record" : "both");
  const CNI_CONTAINERID = container === "another" ? "c0" : sandbox.containerId;
  const env = { CNI_CONTAINERID, CNI_IFNAME: "eth1" };
  expect(await lab.del({ ...web, env })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth1"]);
  expect(lab.logger.at("warn").join()).not.toContain("lost");
  expect(lab.events.reasons).toEqual([]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  const isLost = state === "damaged with its plan";
  expect(lab.plugins.log()).toEqual([...(isLost ? [] : ["bridge DEL net1"]), "ptp DEL eth0"]);
});
