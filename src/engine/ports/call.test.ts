import { expect, test } from "vitest";
import type { PluginRequest } from "#cni/plugin/request.ts";
import { type Call, namesIn, netnsStateOf, readCall } from "./call.ts";

test("readCall() leaves out empty directories of CNI_PATH", () => {
  const path = (CNI_PATH?: string) =>
    readCall({ env: CNI_PATH === undefined ? {} : { CNI_PATH }, stdin: "" }).path;
  expect(path("/opt/cni/bin::/usr/lib/cni:")).toEqual(["/opt/cni/bin", "/usr/lib/cni"]);
  expect([path(""), path()]).toEqual([[], []]);
});

test("namesIn() reads the shim's list, in which each name ends with a slash", () => {
  expect(namesIn("lo/eth0/")).toEqual(new Set(["lo", "eth0"]));
  expect(namesIn("")).toEqual(new Set());
});

const inNetns = (netns: string, netnsOverride = false) => ({ netns, netnsOverride });

test.each<[seen: string, request: object, state: string]>([
  ["ok", {}, "none"],
  ["ok", inNetns(""), "none"],
  ["ok", inNetns("/run/netns/x"), "ok"],
  ["gone", inNetns("/run/netns/x"), "gone"],
  ["own", inNetns("/run/netns/x"), "own"],
  ["own", inNetns("/run/netns/x", true), "ok"],
  ["", inNetns("/run/netns/x"), "unknown"],
  ["another word", inNetns("/run/netns/x"), "unknown"],
])("what the shim found at CNI_NETNS, %j for %j, counts as %j", (seen, request, state) => {
  const call: Call = readCall({ env: { PLEXUS_NETNS: seen }, stdin: "" });
  expect(netnsStateOf(call, request as PluginRequest)).toBe(state);
});
