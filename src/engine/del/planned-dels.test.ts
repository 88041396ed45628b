import { expect, test } from "vitest";
import { bootId, type EngineLab } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";
import { attachmentsToDetach, stepsToReplay } from "./planned-dels.ts";

/** What the records and plans of an ADD that fails at its second of three networks said, write by write. */
async function writesOfFailedAdd(): Promise<EngineLab["records"]["writes"]> {
  const lab = podLab("a,b", { a: ["bridge", "tuning"], b: ["macvlan"] });
  lab.plugins.script("bridge ADD", failed(5, "no"));
  await lab.add(web);
  return lab.records.writes;
}

test("in the boot of the ADD, record and plan agree that what was attempted, and the next network, must be detached", async () => {
  const owed = (await writesOfFailedAdd()).map(({ record, plan }) => ({
    record: attachmentsToDetach(record, bootId).map(({ ifName }) => ifName),
    plan: stepsToReplay(plan, bootId).map(({ call }) => `${call.type} ${call.env.CNI_IFNAME}`),
  }));
  expect(owed).toEqual([
    { record: ["eth0", "net1"], plan: ["tuning net1", "bridge net1", "ptp eth0"] },
    {
      record: ["eth0", "net1", "net2"],
      plan: ["macvlan net2", "tuning net1", "bridge net1", "ptp eth0"],
    },
    // With the error of the ADD.
    { record: ["eth0", "net1"], plan: ["tuning net1", "bridge net1", "ptp eth0"] },
  ]);
});

test.each([
  ["in another boot", { recorded: bootId, boot: "b2" }],
  ["if the boot of the ADD is unknown", { recorded: "", boot: bootId }],
])("%s, all planned networks must be detached", async (_, { recorded, boot }) => {
  const [first] = await writesOfFailedAdd();
  const { record, plan } = first!;
  expect(attachmentsToDetach({ ...record, bootId: recorded }, boot)).toEqual(record.attachments);
  expect(stepsToReplay({ ...plan, bootId: recorded }, boot)).toEqual(plan.steps);
});
