import { expect, test } from "vitest";
import type { AttachmentRecord, StatusPause } from "#engine/record/record.ts";
import { owedByItsCall, withoutPause } from "./status-pause.ts";

const nowMs = 5_000_000;
const clock = { bootId: () => "b1", clock: () => nowMs };

function owing(containerId: string, pause: Partial<StatusPause>): AttachmentRecord {
  const statusPause = { bootId: "b1", clockMs: nowMs + 1, milliseconds: 1, isForAll: false };
  return { containerId, statusPause: { ...statusPause, ...pause } } as AttachmentRecord;
}

const other = { containerId: "other" } as AttachmentRecord;

test.each<[string, Partial<StatusPause>, sent: string[]]>([
  ["that ends now", { clockMs: nowMs }, ["c1", "other"]],
  ["of the shortest time", {}, ["other"]],
  ["of an hour", { clockMs: nowMs + 3_600_000 }, ["other"]],
  ["of more", { clockMs: nowMs + 3_600_001 }, ["c1", "other"]],
  ["of another boot", { bootId: "b0" }, ["c1", "other"]],
  ["for all", { isForAll: true }, []],
  ["for all that has ended", { isForAll: true, clockMs: nowMs }, ["c1", "other"]],
])("withoutPause() with a pause %s", (_, pause, sent) => {
  const records = withoutPause(clock, [owing("c1", pause), other]);
  expect(records.map((each) => each.containerId)).toEqual(sent);
});

test("other processes leave a status to the plexus-standalone of its ADD, for three seconds", () => {
  const owed = { pendingStatus: { a: "b" } };
  const { statusPause } = owedByItsCall({ ...clock, leftoverDuty: "oneCall" }, owed);
  const record = owing("c1", statusPause ?? {});
  const sentAt = (ms: number): number =>
    withoutPause({ ...clock, clock: () => nowMs + ms }, [record]).length;
  expect([sentAt(0), sentAt(2999), sentAt(3000)]).toEqual([0, 0, 1]);
  expect(owedByItsCall({ ...clock, leftoverDuty: "daemon" }, owed)).toEqual(owed);
  expect(owedByItsCall({ ...clock, leftoverDuty: "oneCall" }, {})).toEqual({});
});
