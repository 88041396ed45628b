import { describe, expect, test } from "vitest";
import { formatResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import type { Result } from "#cni/result/result.ts";
import type { IpFamily } from "#lib/ip.ts";
import { type KernelRoute, newDefaultRoute } from "#netlink/routes.ts";
import type { RoutesAfter } from "./apply.ts";
import { withDefaultRoutes } from "./default-routes.ts";

const links = [{ index: 2, name: "eth0", flags: 1, mtu: 1500 }];
const eth0 = { ifName: "eth0" };

function kernel(families: readonly IpFamily[], ...routes: readonly KernelRoute[]): RoutesAfter {
  return { links, families, routes };
}

function route(gateway: string, metric = 0): KernelRoute {
  return newDefaultRoute({ family: 4, ifIndex: 2, gateway, metric, onlink: false });
}

function result(...routes: object[]): Result {
  const ips = [
    { address: "10.0.0.2/24", gateway: "10.0.0.1", interface: 0 },
    { address: "fd00::2/64", gateway: "fd00::1", interface: 0 },
  ];
  const body = { cniVersion: "1.1.0", interfaces: [{ name: "eth0", sandbox: "/x" }], ips, routes };
  return parseResult(body, { fallbackVersion: "1.1.0" });
}

describe("withDefaultRoutes()", () => {
  const other = { dst: "10.9.0.0/16", gw: "10.0.0.7" };
  const v4 = { dst: "0.0.0.0/0", gw: "10.0.0.1" };
  const v6 = newDefaultRoute({
    family: 6,
    ifIndex: 2,
    gateway: "fd00::1",
    metric: 1024,
    onlink: false,
  });

  test("removes only the default routes that the attachment lost, in any notation", () => {
    const before = result(
      v4,
      other,
      { dst: "::0/0", gw: "fd00::1" },
      { dst: "::/0" },
      { ...v4, table: 100 },
    );
    const edited = withDefaultRoutes(before, eth0, kernel([4, 6]));
    expect(edited.routes).toEqual([other, { ...v4, table: 100 }]);
    expect(edited.ips).toEqual(before.ips);
    const kept = [v4, other, { ...v4, table: 100 }];
    expect(withDefaultRoutes(before, eth0, kernel([6])).routes).toEqual(kept);
  });

  test("adds the default routes that the attachment got, with metrics other than the kernel's default", () => {
    const onlink = { ...route("10.0.0.8", 1024), family: 6, hops: [{ ifIndex: 2, onlink: false }] };
    const other = { ...route("10.0.0.7"), hops: [{ ifIndex: 3, onlink: false }] };
    const routes = [route("10.0.0.6", 1), route("10.0.0.5"), onlink as KernelRoute, other];
    expect(withDefaultRoutes(result(v4), eth0, kernel([4, 6], ...routes)).routes).toEqual([
      { dst: "0.0.0.0/0", gw: "10.0.0.5" },
      { dst: "0.0.0.0/0", gw: "10.0.0.6", priority: 1 },
      { dst: "::/0" },
    ]);
  });

  const mtu = { mtu: 1400 };
  test.each([
    ["through the address's gateway", { dst: "0.0.0.0/0", ...mtu }, route("10.0.0.1")],
    ["through another gateway", { dst: "0.0.0.0/0", gw: "10.0.0.7", ...mtu }, route("10.0.0.7")],
    ["of table 0", { ...v4, table: 0 }, route("10.0.0.1")],
    ["of the main table", { ...v4, table: 254 }, route("10.0.0.1")],
    ["with a metric", { ...v4, priority: 5, ...mtu }, route("10.0.0.1", 5)],
    ["of IPv6 with the kernel's metric", { dst: "::/0", priority: 1024, ...mtu }, v6],
  ])("keeps the plugin's entry of a route that did not change: %s", (_, entry, present) => {
    const edited = withDefaultRoutes(result(entry, other), eth0, kernel([4, 6], present));
    expect(edited.routes).toEqual([other, entry]);
  });

  test.each([
    ["of another network", { ...v4, dst: "10.9.0.0/16" }, [true]],
    ["of another table", { ...v4, table: 100 }, [true]],
    ["with another metric", { ...v4, priority: 5 }],
    ["of the other IP family", { dst: "::/0", priority: 5 }, [], route("10.0.0.1", 5)],
    ["with another gateway", { ...v4, gw: "10.0.0.7" }],
  ])("takes no plugin's entry %s for the kernel's route", (...[, entry, kept = [], present]) => {
    const now = present ?? route("10.0.0.1");
    const edited = withDefaultRoutes(result(entry), eth0, kernel([4, 6], now));
    const own = now.metric === 0 ? v4 : { ...v4, priority: now.metric };
    expect(edited.routes).toEqual([...kept.map(() => entry), own]);
  });

  test("takes no entry through the address's gateway for an on-link route, whatever other addresses have", () => {
    const before = result({ dst: "0.0.0.0/0", ...mtu });
    const ips = before.ips.map(({ gateway: _, ...ip }, i) =>
      i === 1 ? ip : { ...ip, gateway: v4.gw },
    );
    const onLink = { ...route("10.0.0.1"), hops: [{ ifIndex: 2, onlink: false }] };
    const edited = withDefaultRoutes({ ...before, ips }, eth0, kernel([4], onLink));
    expect(edited.routes).toEqual([{ dst: "0.0.0.0/0" }]);
  });

  test.each(["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])(
    "returns a result that is valid in CNI %s",
    (version) => {
      const routes = kernel([4], route("10.0.0.9"));
      const edited = withDefaultRoutes(result(v4, other), eth0, routes);
      expect(JSON.stringify(formatResult(edited, version))).toContain(
        '{"dst":"0.0.0.0/0","gw":"10.0.0.9"}',
      );
    },
  );
});
