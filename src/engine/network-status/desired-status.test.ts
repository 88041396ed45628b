import { expect, test } from "vitest";
import { teardownPlan } from "#engine/del/planned-dels.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { begunTeardown } from "#engine/record/record.ts";
import { FakeRecords } from "#engine/testing/fake-records.ts";
import { podLab } from "#engine/testing/pod-lab.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { desiredStatus } from "./desired-status.ts";

const pod = { namespace: "default", name: "web", uid: "u1" };
const later = "2100-01-01T00:00:00Z";

/** An older and a newer sandbox of the pod; their statuses are empty lists that differ. */
const own = { containerId: "c1", ifName: "eth0" };
const texts = { c1: "[]", c2: "[ ]" };

test.each([
  ["is what waits says", {}, own, texts.c1],
  ["is the newer one's where nothing waits", {}, undefined, texts.c2],
  ["is the newer one's when the DEL has begun", { teardown: begunTeardown(later) }, own, texts.c2],
  ["is the newer one's when it is another pod's", { pod: { ...pod, uid: "u2" } }, own, texts.c2],
  ["is the newer one's when it is gone", {}, { ...own, ifName: "gone" }, texts.c2],
])("the status of a pod with two sandboxes %s", async (...row) => {
  const [, changes, key, text] = row;
  const records = new FakeRecords([]);
  const of = { netns: "/run/netns/x", cniVersion: "1.0.0", pod, attachments: [] };
  const at = { createdAt: "2026-01-01T00:00:00Z", bootId: "b1" };
  for (const [containerId, status] of Object.entries(texts)) {
    const clockMs = containerId === "c1" ? 1 : 2;
    const shown = { pendingStatus: { [networkStatusAnnotation]: status } };
    const only = containerId === "c1" ? changes : {};
    const record = { ...own, containerId, ...of, ...at, clockMs, ...shown, ...only };
    records.put(record, teardownPlan(record, 60_000));
  }
  const { now, clock, bootId } = { now: () => at.createdAt, clock: () => 3, bootId: () => "b1" };
  const deps = { ...emptyPorts, records, now, clock, bootId } as unknown as EngineDeps;
  expect(await desiredStatus(deps, pod, key)).toBe(text);
});

test("the mirror of a static pod that is made anew gets the status of its sandbox", async () => {
  const lab = podLab("");
  const shown = () => lab.publisher.status("default/web").map(({ name }) => name);
  const mirror = { name: "web", namespace: "default" };
  const annotations = { [mirrorAnnotation]: "static" };
  lab.source.addPod({ ...mirror, uid: "mirror-1", annotations });
  await lab.add({ pod: "default/web/static" });
  lab.publisher.published.clear();
  await lab.publisher.compare({ ...mirror, uid: "mirror-2", annotations: {} });
  expect(shown()).toEqual([]);
  await lab.publisher.compare({ ...mirror, uid: "mirror-2", annotations });
  expect(shown()).toEqual(["default-net"]);
});
