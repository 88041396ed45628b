import { expect, test } from "vitest";
import type { CallContext } from "#engine/call/call-context.ts";
import { isMadeOnce, recordsAt } from "./netns-path.ts";

const uuid = "0b6bb8b5-4d5a-4c5e-9a64-7d3b0a1c2e3f";

test.each([
  ["containerd's", `/var/run/netns/cni-${uuid}`, true],
  ["CRI-O's", `/var/run/netns/${uuid.toUpperCase()}`, true],
  ["of a UUID", `/run/netns/netns-${uuid}`, true],
  ["a user's", "/run/netns/web", false],
  ["one below a UUID", `/run/${uuid}/web`, false],
  ["one with a shorter UUID", `/run/netns/${uuid.slice(1)}`, false],
  ["that of a process", "/proc/7/ns/net", false],
] as const)("isMadeOnce(): %s", (_, netns, expected) => {
  expect(isMadeOnce(netns)).toBe(expected);
});

test("recordsAt() loads what the shim names, and keeps why a record cannot be used", async () => {
  const asked: string[] = [];
  const occupants = async (netns: string) => {
    asked.push(netns);
    return ["whole", "damaged", "gone"].map((containerId) => ({ containerId, ifName: "eth0" }));
  };
  const load = async ({ containerId }: { containerId: string }) => {
    if (containerId === "damaged") throw new Error("damaged@eth0.record is empty");
    return containerId === "gone" ? undefined : { record: { containerId } };
  };
  const ctx = { host: { occupants }, deps: { records: { load } } } as unknown as CallContext;
  expect(await recordsAt(ctx, "/run//netns/a")).toEqual({
    records: [{ containerId: "whole" }],
    unusable: [{ containerId: "damaged", ifName: "eth0", reason: "damaged@eth0.record is empty" }],
  });
  expect(asked).toEqual(["/run//netns/a"]);
});
