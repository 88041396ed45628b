import { expect, test } from "vitest";
import { FakeRecords } from "#engine/testing/fake-records.ts";
import { type DamagedRecord, isLost } from "./records.ts";

test.each<[string, isLost: boolean, ...Partial<DamagedRecord>[]]>([
  ["this record and another one", true, { containerId: "c1" }, { containerId: "c2" }],
  ["only another record", false, { containerId: "c2" }],
  ["this record, which is damaged otherwise", false, { containerId: "c1", isIncomplete: false }],
])("isLost() of a list with %s", async (_, expected, ...listed) => {
  const damaged = listed.map((keys) => ({
    ...{
      containerId: "",
      ifName: "eth0",
      reason: "",
      isIncomplete: true,
      isUnreadable: false,
      modifiedMs: 0,
    },
    ...keys,
  }));
  const records = Object.assign(new FakeRecords([]), {
    list: async () => ({ records: [], damaged }),
  });
  expect(await isLost(records, { containerId: "c1", ifName: "eth0" })).toBe(expected);
});
