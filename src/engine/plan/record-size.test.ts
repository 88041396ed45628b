import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { JsonObject } from "#lib/json.ts";
import { checkSizeWithResults, plannedSize } from "./record-size.ts";

const filler = "x".repeat(10_000);
const plain: JsonObject = { type: "bridge" };
/** The plan has a DEL of its IPAM plugin, too. */
const withRelease: JsonObject = { type: "host-device", ipam: { type: "host-local" } };

function planned(keys: Partial<PlannedAttachment>, ...plugins: JsonObject[]): PlannedAttachment {
  const conf = { cniVersion: "1.0.0", name: "n", plugins };
  const list = parseNetConfList(conf, { source: "test" });
  const parameters = { cniArgs: [], capabilityArgs: {}, searchPath: [] };
  return { displayName: "n", list, ...parameters, ...keys } as unknown as PlannedAttachment;
}

test.each<[string, Partial<PlannedAttachment>, JsonObject[], times: number]>([
  ["arguments", { capabilityArgs: { filler } }, [plain, plain], 3],
  ["arguments with a release", { capabilityArgs: { filler } }, [plain, withRelease], 4],
  ["a search path", { searchPath: [filler] }, [plain], 4],
  ["an element", { selection: { filler } as never }, [plain, withRelease], 1],
])("the planned size counts %s as often as record and plan have it", (...row) => {
  const [, keys, plugins, times] = row;
  const bytes = plannedSize([planned(keys, ...plugins)]) - plannedSize([planned({}, ...plugins)]);
  expect(Math.round(bytes / filler.length)).toBe(times);
});

test("the planned size counts a configuration in the record, in its DEL and in its release", () => {
  const long = planned({}, { ...withRelease, filler });
  const bytes = plannedSize([long]) - plannedSize([planned({}, withRelease)]);
  expect(Math.round(bytes / filler.length)).toBe(3);
});

test("a result counts in the record and in each DEL, ignored requests only in the record", () => {
  const attached = { planned: planned({}, plain, withRelease), raw: { filler } };
  const bytes = checkSizeWithResults(0, [
    { ...attached, ignoredRequests: [{ key: "mac", asked: filler }] },
  ] as unknown as Parameters<typeof checkSizeWithResults>[1]);
  expect(Math.round(bytes / filler.length)).toBe(5);
});
