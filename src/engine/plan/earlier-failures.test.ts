import { expect, test } from "vitest";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { type EngineLab, expectError, network } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import { podLab } from "#engine/testing/pod-lab.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

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
  const { record, plan } = (await lab.records.load({ ...earlier3, ifName: "eth0" }))!;
  lab.records.put({ ...record, containerId: "other", pod: { ...pod, name: "other" } }, plan);
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

const earlier3 = { containerId: "earlier-3" };
const pod = { namespace: "default", name: "web", uid: "uid-1" };

test.each<[string, (record: AttachmentRecord) => AttachmentRecord]>([
  ["is of another namespace", (record) => ({ ...record, pod: { ...pod, namespace: "other" } })],
  ["is of another pod", (record) => ({ ...record, pod: { ...pod, name: "web-2" } })],
  ["is of an earlier pod of the name", (record) => ({ ...record, pod: { ...pod, uid: "uid-0" } })],
  [
    "is of an earlier boot",
    (record) => ({ ...record, bootId: "b2", createdAt: "2025-01-01T00:00:00Z" }),
  ],
  [
    "is the same one, on another interface",
    (record) => ({ ...record, containerId: "c1", ifName: "eth1" }),
  ],
  [
    "is an earlier one, on another interface",
    (record) => ({ ...record, ...earlier3, ifName: "eth1" }),
  ],
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
  await lab.records.remove(record);
  lab.records.put(change(record), plan);
  expect(await isRefused(lab)).toBe(false);
});

test("a sandbox counts as one failure if it has the network twice", async () => {
  const lab = await withFailures(4);
  for (const [i, change] of [
    (own: RecordedAttachment) => [own, { ...own, ifName: "net9" }],
    (own: RecordedAttachment) => [{ ...own, conf: network("net-a", "vlan") }],
  ].entries()) {
    const { record, plan } = (await lab.records.load({
      containerId: `earlier-${i + 1}`,
      ifName: "eth0",
    }))!;
    lab.records.put({ ...record, attachments: record.attachments.flatMap(change) }, plan);
  }
  expect(await isRefused(lab)).toBe(false);
});

test("the sandboxes of a static pod count after its mirror was made anew", async () => {
  const lab = await withFailures(4);
  const annotations = { [networksAnnotation]: "a", [mirrorAnnotation]: "uid-1" };
  lab.source.addPod({ name: "web", uid: "uid-2", annotations });
  expect(await isRefused(lab)).toBe(true);
});

test.each([
  ["its last error", failed(999, "connection refused"), "connection refused"],
  ["plugins that printed none", ended("timeout"), "timed out after 60000 ms"],
])("the refusal names %s", async (_, outcome, reason) => {
  const lab = await withFailures(4, outcome);
  expectError(await lab.add({ pod: web }), 11, new RegExp(`\\(.*${reason}\\)`));
});

test.each([
  [3, false],
  [4, true],
])("after %i attached sandboxes that got no DEL, the next is refused: %s", async (count, is) => {
  const lab = podLab("a", { a: ["vendor"] }, { leftoverDuty: "daemon" });
  for (let i = 1; i <= count; i++) {
    const env = { CNI_CONTAINERID: `earlier-${i}`, CNI_NETNS: `/run/netns/earlier-${i}` };
    lab.kernel.addNamespace(env.CNI_NETNS);
    expect(await lab.add({ pod: web, env })).toMatchObject({ exitCode: 0 });
  }
  lab.plugins.calls.length = 0;
  expect(await isRefused(lab)).toBe(is);
});
