import type { RecordedAttachment } from "#engine/record/record.ts";

/** What tests of the files identify a sandbox by. */
export const key = { containerId: "c1", ifName: "eth0" };

/** An attachment before its ADD: without state and result. */
export const attachment = {
  displayName: "default/a",
  isDefault: true,
  ifName: "eth0",
  conf: { name: "n", plugins: [{ type: "ptp" }] },
  cniArgs: [["IgnoreUnknown", "1"]] as const,
  capabilityArgs: {},
  searchPath: ["/opt/cni/bin"],
} satisfies Partial<RecordedAttachment>;

/** The sandbox of {@link key}. */
export const sandbox = {
  ...key,
  netns: "/run/netns/x",
  cniVersion: "1.0.0",
  createdAt: "2026-01-01T00:00:00Z",
  clockMs: 0,
};
