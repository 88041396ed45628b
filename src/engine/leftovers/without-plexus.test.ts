import { expect, test } from "vitest";
import {
  type AttachmentRecord,
  begunTeardown,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import { needOf, sandboxNames } from "./without-plexus.ts";

const record = (keys: Partial<AttachmentRecord>): AttachmentRecord => ({
  ...{ containerId: "c".repeat(64), ifName: "eth0", netns: "", cniVersion: "1.0.0" },
  ...{ createdAt: "2026-01-01T00:00:00Z", clockMs: 0, bootId: "b1", attachments: [], ...keys },
});

const named = { namespace: "default", name: "web", uid: "u" };

/** Attached by the primary's list, `k8s`; nerdctl and cnitool name no sandbox in CNI_ARGS. */
function attached(
  networks: readonly string[],
  { isOfKubernetes = true, state = "attached" } = {},
): AttachmentRecord {
  const cniArgs = isOfKubernetes ? [["K8S_POD_INFRA_CONTAINER_ID", "c1"]] : [];
  const attachments = networks.map((name, i) => ({
    ...{ isDefault: i === 0, state, conf: { name }, cniArgs },
  }));
  const keys = { containerId: "c1", listName: "k8s" };
  return record({ ...keys, attachments: attachments as unknown as RecordedAttachment[] });
}

const ofNerdctl = { isOfKubernetes: false };

test.each<[string, ReturnType<typeof needOf>, AttachmentRecord]>([
  ["a pod with the primary's network", "nothing", attached(["k8s"])],
  ["a pod with a further network", "plexus", attached(["k8s", "red"])],
  ["a pod that has chosen another default network", "plexus", attached(["blue"])],
  ["a pod of another list", "plexus", { ...attached(["k8s"]), listName: "plexus" }],
  ["a pod whose DEL failed", "shim", { ...attached(["k8s"]), teardown: begunTeardown("t") }],
  ["a pod whose ADD did not end", "shim", attached(["k8s"], { state: "attempted" })],
  ["a container of nerdctl", "shim", attached(["k8s"], ofNerdctl)],
  ["a container with several networks", "shim", attached(["k8s", "red"], ofNerdctl)],
  ["cnitool's pod of a manifest", "shim", { ...attached(["k8s"], ofNerdctl), pod: named }],
])("without Plexus, %s needs: %s", (_, need, of) => {
  expect(needOf(of, { primary: "k8s", isCrio: false })).toBe(need);
  expect(needOf(of, { primary: "k8s", isCrio: true })).toBe(need === "plexus" ? need : "shim");
});

test("sandboxNames() names pods, containers without a pod, and at most ten", () => {
  const pod = (i: number) => record({ pod: { ...named, name: `p${i}` } });
  const ten = Array.from({ length: 10 }, (_, i) => pod(i));
  const names = ten.map((_, i) => `default/p${i}`).join(", ");
  expect(sandboxNames([record({})])).toBe("1 (cccccccccccc)");
  expect(sandboxNames(ten)).toBe(`10 (${names})`);
  expect(sandboxNames([...ten, pod(10), pod(11)])).toBe(`12 (${names} and 2 more)`);
});
