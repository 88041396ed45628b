import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { HotPlugProblem } from "#engine/hotplug/reports/conditions.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { PendingChange } from "./explanation.ts";
import { PendingChanges } from "./pending-changes.ts";

const recorded = (name: string, ifName: string, state: string): RecordedAttachment =>
  ({ displayName: `default/${name}`, ifName, state }) as RecordedAttachment;
const [net1, owed] = [recorded("a", "net1", "attached"), recorded("a", "net2", "owed")];
const selection = { namespace: "default", name: "a", position: 1 };

const problem = (message: string, keys: Partial<HotPlugProblem>): HotPlugProblem => ({
  ...{ network: "default/a", error: new CniError("IoFailure", message) },
  ...keys,
});
const notDetached = problem("stuck", { ifName: "net1", isRemoval: true });
const notPlugged = problem("refused", {});

function changesWith(...problems: HotPlugProblem[]): PendingChanges {
  const changes = { additions: [{ selection }], removals: [net1, owed], unknown: [] };
  return new PendingChanges(changes, { problems });
}

/** `change: why it failed`, and whether it waits for other elements. */
function shown(pending: PendingChange | undefined): string | undefined {
  const kept = pending?.isKept === true ? " (kept)" : "";
  return pending && `${pending.change}: ${pending.failure?.message ?? ""}${kept}`;
}

test.each<[title: string, HotPlugProblem[], shown: string[]]>([
  ["none", [], ["plug: ", "unplug: ", "unplug: "]],
  ["of the removal", [notDetached], ["plug: ", "unplug: stuck", "unplug: "]],
  ["of both", [notDetached, notPlugged], ["plug: refused", "unplug: stuck (kept)", "unplug: "]],
  [
    "of another removal",
    [problem("other", { network: "default/b", isRemoval: true })],
    ["plug: ", "unplug: ", "unplug: "],
  ],
  [
    "of a removal without interface",
    [problem("other", { isRemoval: true })],
    ["plug: ", "unplug: other", "unplug: other"],
  ],
  [
    "of another interface",
    [problem("other", { ifName: "net2", isRemoval: true })],
    ["plug: ", "unplug: ", "unplug: other"],
  ],
])("pending changes of the element, net1 and net2 with problems %s", (_, problems, expected) => {
  const pending = changesWith(...problems);
  const all = [
    pending.ofElement("default/a"),
    pending.ofAttachment(net1),
    pending.ofAttachment(owed),
  ];
  expect(all.map(shown)).toEqual(expected);
});

test("a problem of another interface is not that of an element", () => {
  const pending = changesWith(problem("other", { ifName: "net2" }));
  expect(shown(pending.ofElement("default/a", "net1"))).toBe("plug: ");
  expect(shown(pending.ofElement("default/a", "net2"))).toBe("plug: other");
});

test("nothing is pending for a network that no element of the annotation adds", () => {
  expect(changesWith(notPlugged).ofElement("default/b")).toBeUndefined();
});

test("without an attempt, nothing is kept", () => {
  const pending = new PendingChanges({ additions: [], removals: [net1], unknown: [] });
  expect(pending.ofAttachment(net1)).toEqual({ change: "unplug", state: "attached" });
});
