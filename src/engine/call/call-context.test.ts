import { expect, test } from "vitest";
import type { PluginRequest } from "#cni/plugin/request.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import { type Call, readCall } from "./call.ts";
import { type CallContext, contextWithoutCall, netnsStateOf } from "./call-context.ts";
import { linksOfCall } from "./sandbox.ts";

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

test("work that no call carries executes nothing", async () => {
  const deps = { clock: () => 0, config: () => ({}) } as unknown as EngineDeps;
  const { host } = contextWithoutCall(deps, { cniVersion: "1.0.0", name: "n", type: "plexus" });
  await expect(host.exec({} as never)).rejects.toThrow(HostGoneError);
  await expect(host.find([], [])).rejects.toThrow(HostGoneError);
});

test("linksOfCall() lists the interfaces if the shim has not", async () => {
  const kernel = new FakeKernel();
  kernel.addNamespace("/run/netns/x");
  kernel.addLink("/run/netns/x", "eth0");
  const ctx = { host: { netlink: kernel.transport } } as unknown as CallContext;
  expect(await linksOfCall(ctx, "/run/netns/x")).toEqual(new Set(["lo", "eth0"]));
});
