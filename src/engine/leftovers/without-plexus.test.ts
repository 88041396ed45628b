import { expect, test } from "vitest";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { sandboxNames } from "./without-plexus.ts";

const record = (keys: Partial<AttachmentRecord>): AttachmentRecord => ({
  ...{ containerId: "c".repeat(64), ifName: "eth0", netns: "", cniVersion: "1.0.0" },
  ...{ createdAt: "2026-01-01T00:00:00Z", clockMs: 0, bootId: "b1", attachments: [], ...keys },
});

test("sandboxNames() names pods, containers without a pod, and at most ten", () => {
  const pod = (i: number) => record({ pod: { namespace: "default", name: `p${i}`, uid: "u" } });
  const ten = Array.from({ length: 10 }, (_, i) => pod(i));
  const names = ten.map((_, i) => `default/p${i}`).join(", ");
  expect(sandboxNames([record({})])).toBe("1 (cccccccccccc)");
  expect(sandboxNames(ten)).toBe(`10 (${names})`);
  expect(sandboxNames([...ten, pod(10), pod(11)])).toBe(`12 (${names} and 2 more)`);
});
