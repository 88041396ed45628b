import { expect, test } from "vitest";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { type EngineLab, network } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import { podLab } from "#engine/testing/pod-lab.ts";

const web = "default/web/uid-1";

/** A pod whose ADD has failed so often, and could not be undone. */
async function withFailures(
  count: number,
  outcome = failed(999, "connection refused"),
): Promise<EngineLab> {
  const lab = podLab("a", { a: ["vendor"] }, { leftoverDuty: "daemon" });
  for (const command of ["ADD", "DEL"]) lab.plugins.script(`vendor ${command}`, outcome);
  for (let i = 1; i <= count; i++) {
    const options = { pod: web, env: { CNI_CONTAINERID: `earlier-${i}` } };
    await lab.add(options);
    await lab.del(options);
  }
  lab.plugins.calls.length = 0;
  return lab;
}

/** Whether the next sandbox of the pod is refused before a plugin runs. */
async function isRefused(lab: EngineLab): Promise<boolean> {
  await lab.add({ pod: web });
  return lab.plugins.calls.length === 0;
}

test.each([
  [3, false],
  [4, true],
])("after %i sandboxes that cannot be detached, the next one is refused: %s", async (count, is) => {
  expect(await isRefused(await withFailures(count))).toBe(is);
});

const pod = { namespace: "default", name: "web", uid: "uid-1" };

test.each<[string, (record: AttachmentRecord) => AttachmentRecord]>([
  ["is of another namespace", (record) => ({ ...record, pod: { ...pod, namespace: "other" } })],
  ["is of another pod", (record) => ({ ...record, pod: { ...pod, name: "web-2" } })],
  ["is of an earlier pod of the name", (record) => ({ ...record, pod: { ...pod, uid: "uid-0" } })],
  ["is of no pod", ({ pod: _none, ...record }) => record],
  ["is not to be detached", ({ teardown: _none, ...record }) => record],
  [
    "was attached",
    (record) => ({
      ...record,
      attachments: record.attachments.map((each) => ({ ...each, result: { cniVersion: "1.0.0" } })),
    }),
  ],
  [
    "had another configuration",
    (record) => ({
      ...record,
      attachments: record.attachments.map((each) => ({ ...each, conf: network("net-a", "vlan") })),
    }),
  ],
])("a sandbox does not count as a failure if it %s", async (_, change) => {
  const lab = await withFailures(4);
  const { record, plan } = (await lab.records.load({ containerId: "earlier-4", ifName: "eth0" }))!;
  lab.records.put(change(record), plan);
  expect(await isRefused(lab)).toBe(false);
});

test.each([
  ["its last error", failed(999, "connection refused"), "connection refused"],
  ["plugins that printed none", ended("timeout"), "timed out after 60000 ms"],
])("the refusal names %s", async (_, outcome, reason) => {
  const lab = await withFailures(4, outcome);
  expect((await lab.add({ pod: web })).json).toMatchObject({
    code: 11,
    msg: expect.stringMatching(new RegExp(`\\(.*${reason}\\)`)),
  });
});

test.each([
  [3, false],
  [4, true],
])(
  "after %i sandboxes that were attached and got no DEL, the next one is refused: %s",
  async (count, is) => {
    const lab = podLab("a", { a: ["vendor"] }, { leftoverDuty: "daemon" });
    for (let i = 1; i <= count; i++) {
      const env = { CNI_CONTAINERID: `earlier-${i}`, CNI_NETNS: `/run/netns/earlier-${i}` };
      lab.kernel.addNamespace(env.CNI_NETNS);
      expect(await lab.add({ pod: web, env })).toMatchObject({ exitCode: 0 });
    }
    lab.plugins.calls.length = 0;
    expect(await isRefused(lab)).toBe(is);
  },
);
