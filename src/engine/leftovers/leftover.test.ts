import { expect, test } from "vitest";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { leftoverReason } from "./leftover.ts";

const failedAt = "2026-01-01T00:00:00Z";
const teardown = { firstFailedAt: failedAt, failedAt, lastError: "busy" };
const attempts = (count: number) => ({ teardown: { ...teardown, attempts: count } });

interface Case {
  readonly what: string;
  readonly keys: Partial<AttachmentRecord>;
  readonly isAttempted?: boolean;
  readonly reason?: string;
}

test.each<Case>([
  { what: "is attached", keys: {} },
  { what: "is of another boot, with a namespace", keys: { bootId: "b2" } },
  { what: "has no namespace", keys: { netns: "/gone" } },
  { what: "names no boot and has no namespace", keys: { bootId: "", netns: "/gone" } },
  {
    what: "is of another boot, without a namespace",
    keys: { bootId: "b2", netns: "/gone" },
    reason: "it was attached before the machine was restarted",
  },
  { what: "began 29 s ago", keys: { clockMs: 71_000 }, isAttempted: true },
  {
    what: "began 30 s ago",
    keys: { clockMs: 70_000 },
    isAttempted: true,
    reason: "its ADD at CREATED did not end",
  },
  {
    what: "began 30 s ago, of whose record an update is lost",
    keys: { clockMs: 70_000, hasLostUpdate: true },
    isAttempted: true,
  },
  { what: "was to be detached", keys: attempts(0), reason: `busy, since ${failedAt}` },
  {
    what: "failed once",
    keys: attempts(1),
    reason: `its teardown failed once, last at ${failedAt}: busy`,
  },
  {
    what: "failed twice",
    keys: attempts(2),
    reason: `its teardown failed 2 times, last at ${failedAt}: busy`,
  },
])("leftoverReason() of a sandbox that $what", async ({ keys, isAttempted, reason }) => {
  const lab = new EngineLab();
  await lab.add();
  const { record } = lab.records.writes.at(-1)!;
  const state = isAttempted === true ? ("attempted" as const) : ("attached" as const);
  const attachments = record.attachments.map((each) => ({ ...each, state }));
  const changed = { ...record, createdAt: "CREATED", attachments, bootId: "b1", ...keys };
  const isNothingAt = (netns: string): boolean => netns === "/gone";
  const clocks = { clock: () => 100_000, now: () => "2026-01-01T00:00:00Z" };
  const node = { bootId: () => "b1", ...clocks, isNothingAt };
  expect(leftoverReason(changed, node)).toBe(reason);
});
