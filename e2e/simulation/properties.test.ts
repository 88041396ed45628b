import { expect, test } from "vitest";
import { encodePlan } from "#protocol/plan.ts";
import type { Sandbox } from "./node/runtime.ts";
import { Properties } from "./properties.ts";
import type { Attached } from "./world/attached.ts";
import { enterWorld, type World } from "./world/world.ts";

const sandbox = { id: "c1", netns: "/run/netns/c1" } as Sandbox;
const identity = { containerId: "c1", ifName: "eth0", bootId: "", attempted: 1 };
const lease: Attached = {
  ...{ kind: "lease", plugin: "host-local", netns: "" },
  ...{ network: "strict", containerId: "c1", ifName: "net1" },
};

interface Story {
  /** What the DEL leaves. */
  left: Attached;
  /** Files whose sync failed before the power loss. @default the record, before its rename */
  unsynced?: readonly string[];
  hasAddEnded?: boolean;
  isRecordLost?: boolean;
}

/** After a power loss in an ADD, a DEL succeeds. @returns what is violated, and what may stay */
function play({ left, unsynced, hasAddEnded = false, isRecordLost = true }: Story) {
  const record = encodePlan({ ...identity, calls: [] });
  enterWorld({
    disk: { exists: () => !isRecordLost, readFile: () => record, list: () => [] },
    kernel: { attachedOf: () => [left], hasNamespaceOf: () => false },
    ...{ schedule: { nowUs: 0 }, note: () => undefined },
  } as unknown as World);
  const options = { isRunning: () => true, lacksRoom: false, stops: 1, hotPlug: false };
  const properties = new Properties(options);
  const call = (command: string, isSuccess: boolean): void => {
    properties.callStarted(command, sandbox);
    const end = { command, sandbox, isSuccess, isTimedOut: false, startedUs: 0 };
    properties.callEnded(end);
  };
  call("ADD", hasAddEnded);
  properties.powerLost(new Set(unsynced ?? ["/var/lib/plexus/.c1@eth0.record.tmp"]));
  properties.machineStarted();
  const mayStayWithoutDel = properties.mayStay(left);
  properties.violation = undefined;
  call("DEL", true);
  return { mayStayWithoutDel, ...endOf(properties, left) };
}

function endOf(properties: Properties, left: Attached) {
  return { violated: properties.violation?.property, mayStay: properties.mayStay(left) };
}

const excused = { mayStayWithoutDel: true, violated: undefined, mayStay: true };
const violation = {
  ...{ mayStayWithoutDel: false, violated: "detached at once", mayStay: false },
};

test("of a lost record, the leases of requested networks may stay, and those of the default network until a DEL", () => {
  expect(play({ left: lease })).toEqual(excused);
  expect(play({ left: lease, unsynced: ["/var/lib/plexus"] })).toEqual(excused);
  const ofDefault = play({ left: { ...lease, network: "pods", ifName: "eth0" } });
  expect(ofDefault).toEqual({ ...violation, mayStayWithoutDel: true });
});

test.each<[string, Story]>([
  ["a link", { left: { ...lease, kind: "link" } }],
  ["host state", { left: { ...lease, kind: "host state" } }],
  [
    "the sync of another record failed",
    { left: lease, unsynced: ["/var/lib/plexus/c2@eth0.record"] },
  ],
  ["no sync failed", { left: lease, unsynced: [] }],
  ["the ADD had ended", { left: lease, hasAddEnded: true }],
  ["the record is there", { left: lease, isRecordLost: false }],
])("nothing else may stay: %s", (_, story) => {
  expect(play(story)).toEqual(violation);
});
