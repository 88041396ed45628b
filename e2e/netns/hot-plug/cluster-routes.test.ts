import { afterAll, beforeAll, expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, hostLocal } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

const pods = ["10.20.0.0/16", "fd00:20::/32"];
const services = ["10.96.0.0/12", "fd00:96::/108"];

needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create({ clusterRoutes: [...pods, ...services] });
    const wide = { ipam: hostLocal(25, { routes: [{ dst: "10.0.0.0/8" }] }) };
    const definition = nad("wide", bridge("wide", 25, wide)) as JsonObject;
    host.api.put("network-attachment-definitions", definition);
    await host.startAgent();
    await host.warmUp();
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  test("a running pod keeps the cluster on eth0 while it has a network with wide routes", async () => {
    const pod = await host.pod("web", "");
    const { sandbox } = pod;
    const kept = () => sandbox.run("ip", "route", "show", "proto", "112");
    const wayTo = (address: string) => sandbox.run("ip", "route", "get", address);
    expect(await kept()).toBe("");
    pod.edit("wide");
    await pod.becomes("net1 wide");
    expect(await wayTo("10.96.0.10")).toContain("via 10.20.0.1 dev eth0");
    expect(await sandbox.run("ip", "-6", "route", "get", "fd00:96::a")).toContain("dev eth0");
    expect(await wayTo("10.9.9.9")).toContain("via 10.25.0.1 dev net1");
    await sandbox.mustCheck();
    pod.edit("wide,front");
    await pod.becomes("net1 wide", "net2 front");
    pod.edit("front");
    await pod.becomes("net2 front");
    expect(await kept()).toContain("10.96.0.0/12 via 10.20.0.1 dev eth0");
    pod.edit("");
    await pod.becomes();
    await sandbox.mustCheck();
    expect(await wayTo("10.96.0.10")).toContain("via 10.20.0.1 dev eth0");
    await sandbox.mustDel();
    expect((await host.left()).filter((each) => !each.includes("br25"))).toEqual([]);
  });
});
